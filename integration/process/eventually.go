package process

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eventually waits for what other processes, or goroutines without a virtual clock, should bring
// about, and fails the test where they do not within a time. It looks every 10 ms.
func Eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	late, look := time.After(within), time.NewTicker(10*time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "not in time: "+what, "%v", within)
		}
	}
}
