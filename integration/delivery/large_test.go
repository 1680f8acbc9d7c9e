package delivery_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// fill brings a session of each device of users 0 to n-1 to the authority, as after a rebuild.
func (g *gateway) fill(t *testing.T, n int, name func(i int) schema.UID, devices ...schema.DeviceID) {
	t.Helper()
	bySlot := map[schema.Slot][]schema.Route{}
	for i := range n {
		slot := subjects.SlotOf(name(i))
		for _, d := range devices {
			g.seq++
			bySlot[slot] = append(bySlot[slot], schema.Route{
				UID: name(i), Owner: g.me, Session: schema.NewSessionNum(uint32(g.seq), 1), Device: d, Flag: "app", Listener: "ws",
				Seq: g.seq, Order: schema.Order{Fence: 1, N: uint64(g.seq)},
			})
		}
	}
	for slot, routes := range bySlot {
		target, err := g.client.Target(t.Context(), slot)
		require.NoError(t, err)
		for chunk := range slices.Chunk(routes, schema.MaxSync) {
			answer, err := g.client.Sync(t.Context(), target, g.me, false, chunk)
			require.NoError(t, err)
			for _, v := range answer.Verdicts {
				require.Equal(t, schema.CodeOK, v.Code)
			}
		}
	}
}

// 10,000 users with five devices each, on a server with the default limits: Go splits by itself, JSON
// takes ten pages of 1,000, each continued as often as its answers do not fit, and nothing is cut.
func TestLargeAnswers(t *testing.T) {
	const users, page, devices = 10_000, 1_000, 5
	run(t, func(t *testing.T, m *mesh) {
		require.EqualValues(t, 1<<20, m.nc.MaxPayload(), "what servers take by default")
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		name := func(i int) schema.UID { return schema.UID(fmt.Sprintf("customer-%06d@example.com", i)) }
		g1.login(t, "first", "phone", "app") // the authority knows the gateway then
		g2.login(t, "first", "tab", "app")
		g1.fill(t, users, name, "phone-0000000000000001", "tablet-000000000000001")
		g2.fill(t, users, name, "desktop-00000000000001", "watch-0000000000000001", "tv-0000000000000000001")
		uids := make([]schema.UID, users)
		for i := range uids {
			uids[i] = name(i)
		}

		found, err := m.Lookup(t.Context(), uids)
		require.NoError(t, err)
		require.Len(t, found, users)
		for i, f := range found {
			require.Equal(t, uids[i], f.UID)
			require.Len(t, f.Routes, devices, "%s is %s: %s", f.UID, f.State, f.Why)
		}
		p, err := m.Push(t.Context(), message("m1"), uids)
		require.NoError(t, err)
		require.Len(t, p.Users, users)
		for i, u := range p.Users {
			require.Equal(t, uids[i], u.UID)
			require.Len(t, u.Routes, devices)
			require.True(t, !slices.ContainsFunc(u.Routes, func(r delivery.PushedRoute) bool { return r.Result != schema.PushWritten }))
		}
		require.Len(t, g1.pushed(), 2*users)
		require.Len(t, g2.pushed(), 3*users)

		b, calls := m.serve(delivery.ServiceConfig{}), map[string]int{}
		for _, call := range []string{"lookup", "push"} {
			for from := 0; from < users; from += page {
				for at := 0; at < page; calls[call]++ {
					body, err := json.Marshal(map[string]any{"uids": uids[from+at : from+page], "payload": 1, "id": "m2"})
					require.NoError(t, err)
					text := b.call(call, string(body))
					require.LessOrEqual(t, len(text), 1<<20)
					var reply struct {
						Results []struct {
							UID    schema.UID
							Routes []struct{ Result string }
						}
						Next int
					}
					require.NoError(t, json.Unmarshal([]byte(text), &reply), "%.200s", text)
					for i, u := range reply.Results {
						require.Equal(t, uids[from+at+i], u.UID)
						require.Len(t, u.Routes, devices)
					}
					done := page - at
					if reply.Next > 0 {
						done = reply.Next
					}
					require.Len(t, reply.Results, done)
					at += done
				}
			}
		}
		require.Len(t, g1.pushed(), 4*users, "each session once a push")
		require.Len(t, g2.pushed(), 6*users)
		require.Greater(t, calls["lookup"], users/page, "some had to be continued")
		t.Logf("10 pages of 1,000 took %d calls of lookup, %d of push", calls["lookup"], calls["push"])
	})
}
