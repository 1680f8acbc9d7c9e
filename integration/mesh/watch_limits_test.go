package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// heap is the memory in use, in bytes, after garbage collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestAWatchOfManyUsers takes delivery.MaxWatched, each counted once, and no more.
func TestAWatchOfManyUsers(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		var uids []schema.UID
		for i := range delivery.MaxWatched {
			uids = append(uids, schema.UID(fmt.Sprintf("user %d", i)))
		}
		m.Gateways[0].Enter(uids[7])
		before, listening := heap(), m.Server.NATS().NumSubscriptions()
		seen := 0
		for s, err := range m.Watch(t.Context(), append(uids, uids[:5]...)) {
			require.NoError(t, err)
			require.Equal(t, uids[seen], s.UID)
			require.Equal(t, uids[seen] == uids[7], s.State == string(schema.Online))
			if seen++; seen == len(uids) {
				break
			}
			if seen == len(uids)-1 {
				t.Logf("%d bytes a user, what the server keeps of a subscription included", (heap()-before)/len(uids))
			}
		}
		require.Equal(t, delivery.MaxWatched, seen)
		m.Still()
		require.Equal(t, listening, m.Server.NATS().NumSubscriptions(), "nothing is left of it")
		for _, err := range m.Watch(t.Context(), append(uids, "one more")) {
			require.ErrorIs(t, err, delivery.ErrTooLarge)
		}
	})
}

// TestAWatcherThatDoesNotRead costs the memory of some thousand events, however many there are; then it is
// told the truth, and that it has missed steps.
func TestAWatcherThatDoesNotRead(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		const events, batch = 60_000, 1000
		reads := make(chan struct{})
		var told []delivery.Sighting
		watch := bubble.Go(t, func(ctx context.Context) error {
			for s, err := range m.Watch(ctx, []schema.UID{"alice"}) {
				told = append(told, s)
				if <-reads; err != nil || s.Kind == delivery.Resync {
					return err
				}
			}
			return nil
		})
		m.Pass(time.Second)
		before := heap()
		event, err := json.Marshal(schema.Event{Type: schema.EventOnline, UID: "alice", Slot: subjects.SlotOf("alice")})
		require.NoError(t, err)
		for range events / batch {
			for range batch {
				require.NoError(t, m.Outsider.Publish(subjects.Prefix("").Event("alice"), event))
			}
			require.NoError(t, m.Outsider.Flush())
			m.Still()
		}
		grown := heap() - before
		t.Logf("%d KiB for %d events that nobody has taken", grown>>10, events)
		require.Less(t, grown, 8<<20)
		m.Gateways[0].Enter("alice")
		close(reads)
		require.NoError(t, watch.Wait())
		require.Equal(t, delivery.Resync, told[len(told)-1].Kind)
		require.Equal(t, string(schema.Online), told[len(told)-2].State)
		require.Len(t, told, 3, "a snapshot, what a look-up has found, and the mark")
	})
}
