package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// TestUnknownSessionsTakeTimeInProportion has an authority say of all sessions of one touch that it does
// not know them, of sixteen times as many the second time: they are found, wanted and given to the sync
// in some sixteen times the time. Each compared with each would be 256 times.
func TestUnknownSessionsTakeTimeInProportion(t *testing.T) {
	few, many := timeOfUnknown(t, schema.MaxTouched/16), timeOfUnknown(t, schema.MaxTouched)
	t.Logf("%d sessions: %v, %d: %v", schema.MaxTouched/16, few, schema.MaxTouched, many)
	require.Less(t, many, 80*few)
}

// timeOfUnknown is the best of five: what else runs on the machine makes it longer, never shorter.
func timeOfUnknown(t *testing.T, n int) time.Duration {
	t.Helper()
	g := newGateway(new(fakeBus), new(fakeBus), newFakeView(), Config{Node: "gw-1", Auth: Insecure{}}.withDefaults())
	l := g.newLife(t.Context(), schema.Process{Node: "gw-1", Boot: schema.NewBoot()})
	sessions, taken := make([]*session, n), make([]int64, n)
	for i := range sessions {
		sessions[i] = &session{g: g, num: schema.NewSessionNum(uint32(i), 1)}
	}
	best := time.Hour
	for range 5 {
		l.syncs.wanted[0] = wantedSync{running: true} // so that nobody begins to tell of them
		begun := time.Now()
		for _, s := range sessions {
			g.except(l, schema.TouchException{Session: s.num, Code: schema.CodeUnknown}, sessions, taken)
		}
		_, wanted, _ := l.syncs.take(0)
		l.syncs.putBack(0, false, wanted)
		best = min(best, time.Since(begun))
		require.Len(t, wanted, n)
	}
	return best
}
