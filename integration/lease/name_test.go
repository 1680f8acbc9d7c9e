package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

var roles = []lease.Role{lease.Authority, lease.Gateway}

// eachRole runs a test for both roles; an authority stands by to make the bucket.
func eachRole(t *testing.T, f func(t *testing.T, s *bubble.Server, r lease.Role)) {
	for _, r := range roles {
		t.Run(string(r), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				join(t, s, lease.Authority, "standby")
				f(t, s, r)
			})
		})
	}
}

func TestNameOfALivingProcessIsRefused(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1").hold()
		b := join(t, s, r, "n-1").start()
		err := b.run.Wait()
		require.ErrorIs(t, err, lease.ErrNameTaken)
		require.ErrorContains(t, err, "n-1")
		require.ErrorContains(t, err, string(a.me().Boot))
		require.ErrorContains(t, err, "serving")
		require.Empty(t, b.Lives())
		time.Sleep(time.Minute)
		require.Len(t, a.Lives(), 1)
		require.True(t, a.holder.Trusted())
	})
}

func TestCrashedProcessTakesItsNameOverAtOnce(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1").hold()
		old := a.me()
		a.crash()
		b := join(t, s, r, "n-1")
		start := time.Now()
		b.hold()
		require.Less(t, time.Since(start), 500*time.Millisecond)
		require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond, "asked three times")
		require.Equal(t, lease.Gone, b.view.Standing(r, old))
	})
}

func TestResignedNameIsTakenAtOnce(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1").hold()
		require.NoError(t, a.run.Stop())
		b := join(t, s, r, "n-1")
		start := time.Now()
		b.hold()
		require.Less(t, time.Since(start), 10*time.Millisecond)
	})
}

func TestNameOfASilentProcessIsWaitedFor(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1").hold()
		a.link.Cut() // the server still holds its connection: questions time out
		b := join(t, s, r, "n-1").start()
		bubble.Until(t, time.Second, "said", func() bool { return b.log.has("waiting until its lease ends") })
		time.Sleep(5 * time.Second)
		require.Empty(t, b.Lives(), "a time-out proves nothing")
		bubble.Until(t, 30*time.Second, "taken over", func() bool { return len(b.Lives()) == 1 })
		a.link.Heal()
		bubble.Until(t, 10*time.Second, "the old one ends", func() bool { return len(a.Causes()) == 1 })
		require.ErrorIs(t, a.run.Wait(), lease.ErrTakenOver)
		require.ErrorIs(t, a.Causes()[0], lease.ErrTakenOver)
		time.Sleep(time.Minute)
		require.Len(t, b.Lives(), 1)
	})
}

// A holder that cannot be reached but renews its key must be waited for, for ever.
func TestNameOfASilentProcessThatRenewsIsNotTaken(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1").hold()
		a.link.LoseIn(prefix.Kick(a.me()), -1)
		a.link.LoseIn(prefix.Authority(a.me(), subjects.Lookup), -1)
		b := join(t, s, r, "n-1").start()
		time.Sleep(5 * time.Minute)
		require.Empty(t, b.Lives())
		require.Len(t, a.Lives(), 1)
		require.NoError(t, b.run.Stop())
		require.True(t, a.holder.Trusted())
	})
}

func TestTwoProcessesOfOneNameStartTogether(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a, b := join(t, s, r, "n-1"), join(t, s, r, "n-1")
		a.start()
		b.start()
		time.Sleep(5 * time.Second)
		require.Len(t, append(a.Lives(), b.Lives()...), 1)
		loser := a
		if len(a.Lives()) == 1 {
			loser = b
		}
		require.ErrorIs(t, loser.run.Wait(), lease.ErrNameTaken)
	})
}

func TestForeignValueUnderTheNameIsWrittenOver(t *testing.T) {
	eachRole(t, func(t *testing.T, s *bubble.Server, r lease.Role) {
		a := join(t, s, r, "n-1")
		js := a.js()
		_, err := js.Publish(t.Context(), prefix.BucketKey(string(r)+".n-1"), []byte("not JSON"))
		require.NoError(t, err)
		a.hold()
		m, _ := a.member(a.view)
		require.Equal(t, schema.StateServing, m.Value.State)
	})
}
