package delivery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestKick(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		phone := g1.login(t, "alice", "phone", "app")
		g2.login(t, "alice", "desk", "web")
		gone := g2.login(t, "alice", "old", "web")
		g2.set(func(g *gateway) {
			g.kicked = func(e schema.KickEntry) schema.Code {
				if e.Session == gone.Session {
					return schema.CodeUnknown
				}
				return schema.CodeOK
			}
		})
		kicked, err := m.Kick(t.Context(), delivery.KickRequest{UID: "alice", Reason: "spam", ExceptSession: g1.name(phone)})
		require.NoError(t, err)
		require.Len(t, kicked, 2)
		require.Equal(t, schema.KickClosed, kicked[0].Result)
		require.EqualValues(t, "desk", kicked[0].Route.Device)
		require.Equal(t, schema.KickNoSession, kicked[1].Result)
		require.Empty(t, g1.kicks)
		require.Len(t, g2.kicks, 2)
		require.Equal(t, schema.CloseRemoved, g2.kicks[0].Close)
		require.Equal(t, "spam", g2.kicks[0].Why)
		require.NotZero(t, g2.kicks[0].Fence)

		time.Sleep(100 * time.Millisecond)
		found, err := m.Lookup(t.Context(), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Len(t, found[0].Routes, 2, "the one that its gateway did not know is gone")

		g1.set(func(g *gateway) { g.silent = true })
		begun := time.Now()
		kicked, err = m.Kick(t.Context(), delivery.KickRequest{UID: "alice", Device: "phone"})
		require.NoError(t, err)
		require.Equal(t, 400*time.Millisecond, time.Since(begun))
		require.Equal(t, schema.KickUnknown, kicked[0].Result)

		kicked, err = m.Kick(t.Context(), delivery.KickRequest{UID: "nobody"})
		require.NoError(t, err)
		require.Empty(t, kicked)
	})
}

// A gateway that knows a later fence does not obey; the look-up is made again, and what the first
// round has closed is not asked for twice.
func TestKickUnderAnOvertakenFence(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		g1.login(t, "alice", "phone", "app")
		g2.login(t, "alice", "desk", "web")
		for _, tc := range []struct {
			stale int
			want  schema.KickResult
			kicks int
		}{{1, schema.KickClosed, 2}, {9, schema.KickUnknown, 3}} {
			left := tc.stale
			g1.set(func(g *gateway) {
				g.kicks = nil
				g.kicked = func(schema.KickEntry) schema.Code {
					if left--; left >= 0 {
						return schema.CodeStale
					}
					return schema.CodeOK
				}
			})
			g2.set(func(g *gateway) { g.kicks = nil })
			kicked, err := m.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
			require.NoError(t, err)
			require.Len(t, kicked, 2)
			for _, k := range kicked {
				want := schema.KickClosed
				if k.Route.Owner == g1.me {
					want = tc.want
				}
				require.Equal(t, want, k.Result)
			}
			require.Len(t, g1.kicks, tc.kicks)
			require.Len(t, g2.kicks, 1)
		}
	})
}

func TestKickOfWhoIsUnknown(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		m.worker.Cut()
		_, err := m.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
		require.ErrorIs(t, err, delivery.ErrUnknownUser)
		require.EqualError(t, err, `whereabouts of the user are unknown: "alice" is unreachable`)
	})
}

// While a slot is rebuilt there may be more sessions than it knows of: those are kicked, and the caller
// learns that he has to come back.
func TestKickDuringARebuild(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		r := g.login(t, "alice", "phone", "app")
		m.worker.Cut()
		nc, _ := m.server.Dial("authority/a-2")
		b, view := open(t, nc)
		w, err := authority.New(nc, b, view, authority.Config{Node: "a-2"})
		require.NoError(t, err)
		bubble.Go(t, w.Run)
		last := false
		sync := func() bool {
			to, ok := g.view.Target(subjects.SlotOf("alice"))
			g.seq++
			r.Seq = g.seq
			_, err := g.client.Sync(t.Context(), to, g.me, last, []schema.Route{r})
			return ok && to.Authority == w.Me() && err == nil
		}
		bubble.Until(t, time.Minute, "the new authority is told", sync)

		for _, req := range []delivery.KickRequest{{UID: "alice"}, {UID: "alice", Device: "phone"}} {
			kicked, err := m.Kick(t.Context(), req)
			require.ErrorIs(t, err, delivery.ErrUnknownUser)
			require.ErrorContains(t, err, "rebuilding")
			require.Len(t, kicked, 1)
			require.Equal(t, schema.KickClosed, kicked[0].Result)
		}
		_, err = m.Kick(t.Context(), delivery.KickRequest{UID: "alice", Session: g.name(r)})
		require.NoError(t, err, "the one that was meant")
		last = true
		require.True(t, sync())
		_, err = m.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
		require.NoError(t, err)
	})
}

func TestShow(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		r := g.login(t, "alice", "phone", "app")
		g.login(t, "bob", "phone", "web")
		bubble := schema.NodeCount{Node: "gw-1", Flag: "app", Sessions: 1}

		stats, err := m.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, schema.StatsReply{Users: 2, Sessions: 2, Nodes: []schema.NodeCount{bubble, {Node: "gw-1", Flag: "web", Sessions: 1}}}, stats)

		slots, err := m.Slots(t.Context())
		require.NoError(t, err)
		require.Len(t, slots.Slots, schema.Slots)
		at := subjects.SlotOf("alice")
		require.Equal(t, at, slots.Slots[at].Slot)
		require.EqualValues(t, "a-1", slots.Slots[at].Owner)
		require.Equal(t, schema.SlotReady, slots.Slots[at].State)
		require.Equal(t, 1, slots.Slots[at].Routes)
		require.NotZero(t, slots.Slots[at].Fence)

		nodes, err := m.Nodes(t.Context())
		require.NoError(t, err)
		require.Equal(t, nodes, slots.Processes)
		require.Len(t, nodes, 2)
		require.Equal(t, []string{"authority", "gateway"}, []string{nodes[0].Role, nodes[1].Role})
		require.Equal(t, g.me.Boot, nodes[1].Boot)
		require.Equal(t, []string{"ws://gw-1"}, nodes[1].Addresses)

		said, err := m.Explain(t.Context(), "alice")
		require.NoError(t, err)
		require.Equal(t, at, said.Slot)
		require.Len(t, said.Routes, 1)
		require.Equal(t, g.name(r), said.Routes[0].Session)
		_, err = m.Explain(t.Context(), "")
		require.ErrorIs(t, err, schema.ErrBad)

		m.worker.Cut()
		stats, err = m.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []schema.NodeID{"a-1"}, stats.Missing)
		slots, err = m.Slots(t.Context())
		require.NoError(t, err)
		require.Equal(t, schema.SlotUnreachable, slots.Slots[at].State)
		require.EqualValues(t, "a-1", slots.Slots[at].Owner)
	})
}
