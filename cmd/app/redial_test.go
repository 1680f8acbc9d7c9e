package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
)

// An authority is back before the others act on the server's word that its connection has ended:
// eleven attempts within 100 ms, the first at once. Then it leaves the server in peace.
func TestAnAuthorityRedialsAtOnce(t *testing.T) {
	wait := redialOf(deploy.Authority)
	require.Zero(t, wait(0))
	within := time.Duration(0)
	for attempt := range 11 {
		within += wait(attempt)
	}
	require.Equal(t, 100*time.Millisecond, within)
	for attempt := 11; attempt < 1000; attempt++ {
		full := min(time.Second, 10*time.Millisecond<<min(attempt-10, 20))
		require.Greater(t, wait(attempt), full/2, attempt)
		require.LessOrEqual(t, wait(attempt), full, attempt)
	}
}

// The others are many: they come back once soon, then spread.
func TestTheOthersRedialSpread(t *testing.T) {
	for _, role := range []deploy.User{deploy.Gateway, deploy.Delivery} {
		wait := redialOf(role)
		require.Equal(t, 50*time.Millisecond, wait(0))
		for attempt := 1; attempt < 1000; attempt++ {
			require.GreaterOrEqual(t, wait(attempt), 500*time.Millisecond)
			require.Less(t, wait(attempt), time.Second)
		}
	}
}
