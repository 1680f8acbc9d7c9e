package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// TestUnknownSessionsTakeTimeInProportion has an authority say of all sessions of a touch that it does
// not know them: they are found, wanted and given to the sync. 64 times as many in one touch take about
// as long as 64 touches; each compared with each they took 23 times as long and more (measured). Both
// are measured in turn and the best turn counts, since what else runs on the machine lengthens either.
func TestUnknownSessionsTakeTimeInProportion(t *testing.T) {
	const few, times = 512, 64
	small, large := newTouched(t, few), newTouched(t, few*times)
	best := 1e9
	for range 5 {
		apart, together := small.unknown(t, times), large.unknown(t, 1)
		best = min(best, together.Seconds()/apart.Seconds())
	}
	t.Logf("%.1f times as long", best)
	require.Less(t, best, 8.0)
}

// touched are the sessions of one touch, in a gateway that does nothing else.
type touched struct {
	g        *Gateway
	l        *life
	sessions []*session
}

func newTouched(t *testing.T, n int) *touched {
	t.Helper()
	g := newGateway(new(fakeBus), new(fakeBus), newFakeView(), Config{Node: "gw-1", Auth: Insecure{}}.withDefaults())
	x := &touched{g: g, l: g.newLife(t.Context(), schema.Process{Node: "gw-1", Boot: schema.NewBoot()})}
	for i := range n {
		x.sessions = append(x.sessions, &session{g: g, num: schema.NewSessionNum(uint32(i), 1)})
	}
	return x
}

// unknown has so many touches answered, and gives how long that takes.
func (x *touched) unknown(t *testing.T, times int) time.Duration {
	t.Helper()
	taken := make([]int64, len(x.sessions))
	begun := time.Now()
	for range times {
		x.l.syncs.wanted[0] = wantedSync{running: true} // so that nobody begins to tell of them
		for _, s := range x.sessions {
			x.g.except(x.l, schema.TouchException{Session: s.num, Code: schema.CodeUnknown}, x.sessions, taken)
		}
		_, wanted, _ := x.l.syncs.take(0)
		x.l.syncs.putBack(0, false, wanted)
		require.Len(t, wanted, len(x.sessions))
	}
	return time.Since(begun)
}
