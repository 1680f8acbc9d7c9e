package mesh_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestSessionsOfAGateway reads all sessions of a gateway page by page, and one by its name.
func TestSessionsOfAGateway(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one := m.Gateways[0]
		var all []string
		var sockets []*mesh.Socket
		for i := range 25 {
			uid := schema.UID(fmt.Sprintf("user %02d", i))
			sockets = append(sockets, one.Enter(uid, mesh.As("phone", "app", schema.Master)))
			all = append(all, string(uid))
		}
		m.Gateways[1].Enter("elsewhere")
		m.Pass(5 * time.Second)
		var told []string
		call := schema.SessionsCall{Node: "gw-1", Limit: 10}
		for page := 0; ; page++ {
			var reply schema.SessionsReply
			code, why := m.Call("sessions", call, &reply)
			require.Empty(t, code, why)
			require.EqualValues(t, "gw-1", reply.Node)
			require.Equal(t, one.Me().Boot, reply.Boot)
			for _, r := range reply.Results {
				require.EqualValues(t, "phone", r.Device)
				require.Equal(t, "master", r.Level)
				require.InDelta(t, 5000, r.ConnectedMS, 100)
				require.InDelta(t, 85000, r.TTLMS, 100)
				told = append(told, string(r.UID))
			}
			if call.Cursor = reply.Cursor; call.Cursor == "" {
				break
			}
			require.Less(t, page, 5)
		}
		require.ElementsMatch(t, all, told)

		id, _ := sockets[7].Current()
		found, err := m.Delivery.Sessions(t.Context(), delivery.SessionsRequest{Session: id})
		require.NoError(t, err)
		require.Len(t, found.Routes, 1)
		require.EqualValues(t, "user 07", found.Routes[0].UID)
		sockets[7].Leave()
		m.Pass(10 * time.Millisecond) // the goodbye is answered before the session is out
		found, err = m.Delivery.Sessions(t.Context(), delivery.SessionsRequest{Node: "gw-1", Session: id})
		require.NoError(t, err)
		require.Empty(t, found.Routes)
	})
}

// TestPagesOfAGatewayInMotion reads a gateway's sessions while some come and go between the pages: who was
// there all the while is told of once, nobody twice, and nobody after he has gone.
func TestPagesOfAGatewayInMotion(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		one := m.Gateways[0]
		stays := map[schema.SessionID]bool{}
		var goes []*mesh.Socket // two of each ten
		for i := range 50 {
			s := one.Enter(schema.UID(fmt.Sprintf("user %02d", i)))
			if i%5 == 0 {
				goes = append(goes, s)
				continue
			}
			stays[session(s)] = true
		}
		told, gone := map[schema.SessionID]int{}, map[schema.SessionID]bool{}
		request := delivery.SessionsRequest{Node: "gw-1", Limit: 10}
		for page := 0; ; page++ {
			require.Less(t, page, 20)
			found, err := m.Delivery.Sessions(t.Context(), request)
			require.NoError(t, err)
			for _, r := range found.Routes {
				id := r.Session.Outside(r.Owner.Boot)
				require.False(t, gone[id], r.UID)
				told[id]++
			}
			if request.Cursor = found.Cursor; request.Cursor == "" {
				break
			}
			if last := len(goes) - 1; last > 0 {
				for _, s := range []*mesh.Socket{goes[0], goes[last]} { // one that was told of, one that was not
					gone[session(s)] = true
					s.Leave()
				}
				goes = goes[1:last]
			}
			m.Pass(10 * time.Millisecond)
			one.Enter(schema.UID(fmt.Sprintf("new %d", page))) // takes a seat that has become free
		}
		for id := range stays {
			require.Equal(t, 1, told[id])
		}
		for id, n := range told {
			require.Equal(t, 1, n, id)
		}
	})
}

func TestSessionsRefused(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		gone := schema.NewBoot()
		m.Gateways[1].Cut()
		for request, want := range map[string]string{
			`{}`:                           "400 bad request: node is missing",
			`{"node":"gw-9"}`:              "404 no such gateway: gw-9",
			`{"node":"a b"}`:               "400 bad request: node",
			`{"node":"gw-1","limit":1001}`: "400 bad request: limit is 1001",
			`{"node":"gw-1","limit":-1}`:   "400 bad request: limit is -1",
			`{"node":"gw-1","cursor":"x"}`: `400 bad request: cursor "x"`,
			`{"session":"x"}`:              `400 bad request: session "x"`,
			`{"node":"gw-2"}`:              "504 ",
			`{"node":"gw-1","cursor":"` + string(schema.SessionNum(7).Outside(gone)) + `"}`: "400 bad request: cursor is of an earlier life",
			`{"session":"` + string(schema.SessionNum(7).Outside(gone)) + `"}`:              "404 no such gateway: boot",
		} {
			code, why := m.Call("sessions", []byte(request), nil)
			require.True(t, strings.HasPrefix(code+" "+why, want), "%s: %s %s", request, code, why)
		}
	})
}

// TestSessionsWhileTheBucketIsLost: a gateway that lives is not called unknown while its key is missing, or
// while it takes another; whoever asks is told to ask again.
func TestSessionsWhileTheBucketIsLost(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		m.Gateways[0].Enter("alice")
		m.Pass(time.Minute)
		late := m.Gateways[0].Control.Lose("$KV.>", -1) // so that its key is missing for a while
		time.AfterFunc(10*time.Second, late.Remove)
		m.Request("$JS.API.STREAM.DELETE."+subjects.Prefix("").BucketStream(), nil)
		said := map[string]int{}
		for begun := time.Now(); time.Since(begun) < time.Minute; m.Pass(50 * time.Millisecond) {
			var reply schema.SessionsReply
			code, why := m.Call("sessions", schema.SessionsCall{Node: "gw-1"}, &reply)
			require.Contains(t, []string{"", "503", "504"}, code, why)
			if code == "" {
				require.Len(t, reply.Results, 1)
			}
			said[code]++
		}
		require.NotZero(t, said["503"])
		require.Greater(t, said[""], said["503"])
		code, _ := m.Call("sessions", schema.SessionsCall{Node: "gw-9"}, nil)
		require.Equal(t, "404", code, "nobody is called that")
		m.Gateways[1].Kill()
		m.Pass(2 * time.Minute)
		code, _ = m.Call("sessions", schema.SessionsCall{Node: "gw-2"}, nil)
		require.Equal(t, "404", code, "it is gone")
	})
}
