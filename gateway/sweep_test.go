package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sweep that is woken late visits all slots that are due, so that each has its turn in time.
func TestDueSlots(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		now    time.Duration // last is 1 s, a step 40 ms
		visits int
		latest time.Duration
	}{
		"in time":         {1040 * ms, 1, 1040 * ms},
		"a little late":   {1079 * ms, 1, 1040 * ms},
		"too early":       {1039 * ms, 0, 1000 * ms},
		"late":            {1300 * ms, 7, 1280 * ms},
		"a round":         {1000*ms + 256*40*ms, 256, 1000*ms + 256*40*ms},
		"after a suspend": {time.Hour, 256, time.Hour - 1000*ms%(40*ms)},
	} {
		visits, latest := due(1000*ms, c.now, 40*ms)
		require.Equal(t, c.visits, visits, name)
		require.Equal(t, c.latest, latest, name)
		require.Less(t, c.now-latest, 40*ms, name)
	}
}
