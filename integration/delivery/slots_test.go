package delivery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// presence.slots while a worker loses the bucket and another takes its slots: whether the lease is proven,
// how old renewals are, when and why a slot moved, how far its rebuild is, and for which gateway it waits.
func TestSlotsTellOfATakeover(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		one, two := m.gateway("gw-1"), m.gateway("gw-2")
		show := func() (schema.SlotsReply, map[schema.NodeID]schema.ProcessStatus) {
			t.Helper()
			reply, err := m.Slots(t.Context())
			require.NoError(t, err)
			by := map[schema.NodeID]schema.ProcessStatus{}
			for _, p := range reply.Processes {
				by[p.Node] = p
			}
			return reply, by
		}
		time.Sleep(5 * time.Second)
		before, by := show()
		require.False(t, before.Slots[7].Suspect)
		require.LessOrEqual(t, by["a-1"].RenewedMS, int64(3100))
		require.GreaterOrEqual(t, before.Slots[7].HeldMS, int64(5000))
		require.Equal(t, schema.CauseClaimed, before.Slots[7].Cause)

		lost := m.worker.Lose("$KV.>", -1)
		time.Sleep(24 * time.Second)
		suspect, by := show()
		require.Equal(t, schema.SlotReady, suspect.Slots[7].State, "it answers on")
		require.True(t, suspect.Slots[7].Suspect)
		require.Empty(t, suspect.Missing)
		require.Greater(t, by["a-1"].RenewedMS, int64(20_000))

		nc, _ := m.server.Dial("authority/a-2")
		b, view := open(t, nc)
		next, err := authority.New(nc, b, view, authority.Config{Node: "a-2", Fresh: true})
		require.NoError(t, err)
		bubble.Go(t, next.Run)
		bubble.Until(t, time.Minute, "the other has the slots", func() bool {
			now, _ := m.seen.Target(7)
			return now.Authority == next.Me()
		})
		time.Sleep(time.Second)
		target, err := one.client.Target(t.Context(), 7)
		require.NoError(t, err)
		_, err = one.client.Sync(t.Context(), target, one.me, true, nil)
		require.NoError(t, err)
		moved, by := show()
		require.Greater(t, moved.Slots[7].Fence, before.Slots[7].Fence)
		require.False(t, moved.Slots[7].Suspect)
		require.Equal(t, schema.CauseClaimed, moved.Slots[7].Cause)
		require.Less(t, moved.Slots[7].HeldMS, int64(5000))
		require.Equal(t, 1, moved.Slots[7].Synced)
		require.Equal(t, []schema.NodeID{"gw-2"}, moved.Slots[7].Outstanding)
		require.Equal(t, 1, moved.Slots[7].Awaited)
		require.Equal(t, schema.Slots-1, by["gw-1"].SyncBacklog)
		require.Equal(t, schema.Slots, by["gw-2"].SyncBacklog)
		require.Zero(t, by["a-2"].SyncBacklog)
		require.Equal(t, schema.StateDead, by["a-1"].State)

		_, err = two.client.Sync(t.Context(), target, two.me, true, nil)
		require.NoError(t, err)
		whole, by := show()
		require.Equal(t, schema.SlotReady, whole.Slots[7].State)
		require.Zero(t, whole.Slots[7].Synced)
		require.Equal(t, schema.Slots-1, by["gw-2"].SyncBacklog)
		lost.Remove()
	})
}
