package mesh_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestRevokeEverywhere ends the sessions of a token on all gateways and no others, although the
// first message to one of them, and the first answer of the other, are lost.
func TestRevokeEverywhere(t *testing.T) {
	auth := new(asks)
	mesh.Run(t, mesh.Options{Gateway: func(c *gateway.Config) { c.Auth = auth }}, func(t *testing.T, m *mesh.Mesh) {
		nc, _ := m.Server.Dial("gateway/auth")
		auth.over(nc)
		judges(m)
		one, two := m.Gateways[0], m.Gateways[1]
		gone := []*mesh.Socket{one.Enter("alice/stolen", mesh.As("a", "app", schema.Slave)), two.Enter("alice/stolen", mesh.As("b", "app", schema.Slave))}
		stays := []*mesh.Socket{one.Enter("alice/good", mesh.As("c", "app", schema.Slave)), two.Enter("bob/stolen")}
		one.Control.LoseIn("revoke", 1)
		two.Control.Lose("_INBOX.>", 1)
		var reply schema.KickReply
		code, why := m.Call("kick", schema.KickCall{UID: "alice", TokenID: "stolen", Reason: "stolen phone"}, &reply)
		require.Empty(t, code, why)
		require.Empty(t, reply.Unanswered)
		require.Len(t, reply.Results, 2)
		for i, r := range reply.Results {
			require.Equal(t, m.Gateways[i].Node, r.Node)
			require.Equal(t, schema.KickClosed, r.Result)
			end := gone[i].Ended()
			require.Equal(t, schema.CloseRemoved, end.Code)
			require.Equal(t, "stolen phone", end.Reason)
		}
		require.Equal(t, schema.CloseRemoved, one.Hello("alice/stolen").Ended().Code)
		m.Pass(11 * time.Second)
		one.Enter("alice/stolen", mesh.As("a", "app", schema.Slave))
		for _, s := range stays {
			require.True(t, s.Open())
		}
	})
}

// TestRevokeNamesWhoIsSilent, within the caller's time, and reaches it when it is back.
func TestRevokeNamesWhoIsSilent(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		here, there := one.Enter("alice", mesh.As("a", "app", schema.Slave)), two.Enter("alice", mesh.As("b", "app", schema.Slave))
		two.Cut()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		kicked, err := m.Revoke(ctx, delivery.RevokeRequest{UID: "alice"})
		var silent *delivery.UnansweredError
		require.ErrorAs(t, err, &silent)
		require.Equal(t, []schema.NodeID{"gw-2"}, silent.Gateways)
		require.Len(t, kicked, 1)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Equal(t, schema.CloseRemoved, here.Ended().Code)
		require.True(t, there.Open())
		var reply schema.KickReply
		m.Call("kick", schema.KickCall{UID: "alice", TokenID: "x"}, &reply)
		require.Equal(t, []schema.NodeID{"gw-2"}, reply.Unanswered)

		two.Heal()
		m.Pass(time.Second)
		_, err = m.Revoke(t.Context(), delivery.RevokeRequest{UID: "alice", Device: "b"})
		require.NoError(t, err)
		require.Equal(t, schema.CloseRemoved, there.Ended().Code)

		_, err = m.Revoke(t.Context(), delivery.RevokeRequest{})
		require.ErrorIs(t, err, schema.ErrBad)
		m.Asker.Cut()
		m.Asker.Reset()
		m.Pass(time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Revoke(ctx, delivery.RevokeRequest{UID: "alice"})
		require.Error(t, err)
	})
}

// TestKickFilters: each field of presence.kick means what it says, and they narrow each other.
func TestKickFilters(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: func(c *schema.Config) { c.Policy = "multi" }}, func(t *testing.T, m *mesh.Mesh) {
		for i, c := range []struct {
			call func(all map[string]schema.SessionID) schema.KickCall
			want []string
		}{
			{func(map[string]schema.SessionID) schema.KickCall { return schema.KickCall{} }, []string{"a", "b", "c"}},
			{func(map[string]schema.SessionID) schema.KickCall { return schema.KickCall{Device: "b"} }, []string{"b"}},
			{func(map[string]schema.SessionID) schema.KickCall { return schema.KickCall{Flag: "web"} }, []string{"b", "c"}},
			{func(s map[string]schema.SessionID) schema.KickCall { return schema.KickCall{Session: s["c"]} }, []string{"c"}},
			{func(s map[string]schema.SessionID) schema.KickCall { return schema.KickCall{ExceptSession: s["a"]} }, []string{"b", "c"}},
			{func(s map[string]schema.SessionID) schema.KickCall {
				return schema.KickCall{Flag: "web", ExceptSession: s["b"]}
			}, []string{"c"}},
			{func(s map[string]schema.SessionID) schema.KickCall {
				return schema.KickCall{Device: "a", Session: s["b"]}
			}, nil},
		} {
			sockets, ids := map[string]*mesh.Socket{}, map[string]schema.SessionID{}
			for n, id := range []string{"a", "b", "c"} {
				flag := schema.Flag("web")
				if id == "a" {
					flag = "app"
				}
				s := m.Gateways[n%2].Enter("alice", mesh.As(schema.DeviceID(id), flag, schema.Slave))
				sockets[id] = s
				ids[id], _ = s.Current()
			}
			call := c.call(ids)
			call.UID, call.Reason = "alice", "lost phone"
			var reply schema.KickReply
			code, why := m.Call("kick", call, &reply)
			require.Empty(t, code, why)
			var got []string
			for _, r := range reply.Results {
				got = append(got, string(r.Device))
				require.Equal(t, ids[string(r.Device)], r.Session)
				require.Equal(t, schema.KickClosed, r.Result)
			}
			require.ElementsMatch(t, c.want, got, "%d", i)
			for _, id := range got {
				require.Equal(t, mesh.End{At: time.Now(), Code: schema.CloseRemoved, Reason: "lost phone"}, sockets[id].Ended())
				delete(sockets, id)
			}
			for _, s := range sockets {
				require.True(t, s.Open(), "%d", i)
				s.Leave()
			}
			m.Pass(100 * time.Millisecond)
		}
	})
}
