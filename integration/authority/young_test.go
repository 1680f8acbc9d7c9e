package authority_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// A second worker joins in a young bucket. Gateways have had the time to write their keys by when the
// shares are evened out, so the slots move as fast as in an old one, and nobody is unknown for longer
// than a slot takes to be told of its sessions.
func TestAShareInAYoungBucket(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorkerWith(t, s, authority.Config{Node: "a-1"})
		begun := time.Now()
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		require.Equal(t, schema.Unknown, g.state(t, "bob"), "gateways have yet to write their keys")
		second := startWorkerWith(t, s, authority.Config{Node: "a-2"})
		absent := make([]schema.UID, schema.Slots) // one a slot
		for slot := range absent {
			absent[slot] = uidOf(schema.Slot(slot))
		}
		known := map[schema.Slot]time.Time{} // since when a slot is known, or was last
		for time.Since(begun) < 8*time.Second {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			for _, found := range g.Lookup(t.Context(), absent) {
				slot := slotOf(found.UID)
				last, was := known[slot]
				if found.State != schema.Unknown {
					known[slot] = time.Now()
					continue
				}
				if was {
					require.Less(t, time.Since(last), 200*time.Millisecond, "slot %d", slot)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Len(t, known, schema.Slots)
		require.Equal(t, map[schema.Process]int{first.Me(): schema.Slots / 2, second.Me(): schema.Slots / 2}, g.shares())
		require.True(t, first.view.Young())
	})
}
