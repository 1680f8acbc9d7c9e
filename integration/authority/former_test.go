package authority_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
)

// A server loses the tail of its log, and with it the end of a worker's former life: the key names that
// boot again, alive. Nobody answers for it: the next life begins, and serves.
func TestAFormerBootThatReturnsIsNobodyElse(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		other := join(t, s, "other")
		time.Sleep(time.Second)
		loseTail := s.Keep()
		time.Sleep(5 * time.Second)
		first := w.Me()
		members := other.view.Members(lease.Authority)
		i := slices.IndexFunc(members, func(m lease.Member) bool { return m.Process == first })
		require.GreaterOrEqual(t, i, 0)
		require.NoError(t, other.b.Kill(t.Context(), members[i]))
		bubble.Until(t, 10*time.Second, "the next life", func() bool { return w.Me() != first })
		second := w.Me()
		loseTail()
		bubble.Until(t, 20*time.Second, "a life after that", func() bool { return w.Me() != second })
		require.NotEqual(t, first, w.Me(), "a boot never returns")
		bubble.Until(t, time.Minute, "it serves", w.Ready)
		select {
		case <-w.run.Done():
			require.NoError(t, w.run.Wait(), "it has ended")
		default:
		}
	})
}

// The lost tail may be so long that the key names a process which stood there before this one: killed,
// and started again, twice. It is asked, and does not answer.
func TestAKilledPredecessorThatReturnsIsAsked(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		time.Sleep(time.Second)
		loseTail := s.Keep()
		for range 2 {
			w.kill()
			w = startWorker(t, s, "a-1")
			time.Sleep(5 * time.Second)
		}
		before := w.Me()
		loseTail()
		bubble.Until(t, 20*time.Second, "its next life", func() bool { return w.Me() != before })
		bubble.Until(t, time.Minute, "it serves", w.Ready)
		require.NotEqual(t, before, w.Me(), "a boot never returns")
	})
}
