package authority_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// A slot's fence is so far below one already seen that nothing lifts it, in a bucket that is not young:
// the slot is not served. That is told and counted once, however often it is looked at, and the status
// names the cause until the slot is served again.
func TestACorruptSlotIsToldOfOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		d := newDiary()
		w := startWorkerWith(t, s, authority.Config{Node: "a-1", Fresh: true, Log: d.logger(), Metrics: d})
		g := startGateway(t, s, "gw-1")
		before := target(t, g, 0)
		reads := w.link.Lose("$JS.API.STREAM.MSG.GET.>", -1) // while the bucket is young nothing is lifted
		require.True(t, w.view.Saw(0, before.Fence+10*lease.MostAhead))
		time.Sleep(2 * time.Minute)
		require.False(t, w.view.Young())
		require.Zero(t, d.counted(t, "corrupt_fences_total"))
		reads.Remove()
		time.Sleep(5 * time.Second) // a read that was lost may still be waited for
		failed := d.said("slot not reclaimed")
		time.Sleep(time.Minute)
		require.Equal(t, 1, d.said("slot cannot be served"))
		require.Equal(t, failed, d.said("slot not reclaimed"))
		require.EqualValues(t, 1, d.counted(t, "corrupt_fences_total"))
		require.Equal(t, schema.SlotStatus{
			Slot: 0, Owner: "a-1", Boot: w.Me().Boot, Fence: before.Fence, State: schema.SlotUnreachable, Cause: schema.CauseCorrupt,
		}, g.slotStatus(t, w, 0))
		require.Equal(t, schema.SlotReady, g.slotStatus(t, w, 1).State)

		js, err := jetstream.New(g.nc)
		require.NoError(t, err)
		require.NoError(t, js.DeleteStream(t.Context(), subjects.Prefix("").BucketStream()))
		time.Sleep(2 * time.Minute)
		require.Greater(t, target(t, g, 0).Fence, before.Fence+10*lease.MostAhead)
		require.Equal(t, schema.CauseClaimed, g.slotStatus(t, w, 0).Cause)
	})
}
