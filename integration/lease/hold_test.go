package lease

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestLeaseIsTakenRenewedAndResigned(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1").hold()
		bubble.Until(t, time.Second, "seen", func() bool { _, ok := a.member(g.view); return ok })
		first, _ := a.member(g.view)
		require.Equal(t, a.me(), first.Process)
		require.Equal(t, schema.StateServing, first.Value.State)
		require.Equal(t, lease.Living, g.view.Standing(lease.Authority, a.me()))

		time.Sleep(10 * time.Minute)
		later, _ := a.member(g.view)
		require.Greater(t, later.Revision, first.Revision)
		require.LessOrEqual(t, later.Quiet, 3200*time.Millisecond, "renewed every 3 s")
		require.True(t, a.holder.Trusted())
		require.Len(t, a.Lives(), 1)

		require.NoError(t, a.run.Stop())
		require.False(t, a.holder.Trusted())
		bubble.Until(t, 100*time.Millisecond, "told at once", func() bool {
			return g.view.Standing(lease.Authority, first.Process) == lease.Gone
		})
		require.ErrorContains(t, a.Causes()[0], "context canceled")
	})
}

func TestTrustEndsTwoThirdsIntoTheLease(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		time.Sleep(10 * time.Second)
		renewed := a.holder.Renewed()
		a.link.Lose(anyKey, -1)
		time.Sleep(time.Until(renewed.Add(20*time.Second - time.Millisecond)))
		require.Equal(t, renewed, a.holder.Renewed())
		require.True(t, a.holder.Trusted())
		time.Sleep(time.Millisecond)
		require.False(t, a.holder.Trusted())
		time.Sleep(time.Hour)
		require.Len(t, a.Lives(), 1, "without an answer nothing is lost")
		require.Empty(t, a.Causes())
	})
}

func TestTrustRunsFromTheStartOfTheAttempt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		rule := a.link.Delay(anyKey, 1, 900*time.Millisecond)
		before := a.holder.Renewed()
		bubble.Until(t, 5*time.Second, "an attempt", func() bool { return rule.Hits() == 1 })
		start := time.Now()
		bubble.Until(t, time.Second, "acknowledged", func() bool { return a.holder.Renewed() != before })
		require.GreaterOrEqual(t, time.Since(start), 899*time.Millisecond)
		require.WithinDuration(t, start, a.holder.Renewed(), time.Millisecond)
	})
}

func TestKilledHolderBeginsAnew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		b := join(t, s, lease.Authority, "a-2")
		m, ok := a.member(b.view)
		require.True(t, ok)
		require.NoError(t, b.bucket.Kill(t.Context(), m))
		require.ErrorIs(t, b.bucket.Kill(t.Context(), m), lease.ErrConflict, "one winner")
		bubble.Until(t, 4*time.Second, "a new life", func() bool { return len(a.Lives()) == 2 })
		require.ErrorIs(t, a.Causes()[0], lease.ErrLost)
		require.NotEqual(t, a.Lives()[0].Boot, a.Lives()[1].Boot)
		bubble.Until(t, time.Second, "heard", func() bool {
			return b.view.Standing(lease.Authority, a.me()) == lease.Living
		})
		require.Equal(t, lease.Gone, b.view.Standing(lease.Authority, a.Lives()[0]))
	})
}

// A process that was cut off, declared dead by others and then comes back must not get its lease
// back by a late renewal.
func TestZombieRenewalFails(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		b := join(t, s, lease.Authority, "a-2").hold()
		zombie := a.me()
		a.link.Cut()
		bubble.Until(t, 40*time.Second, "quiet for a lease", func() bool {
			m, _ := a.member(b.view)
			return m.Quiet >= 30*time.Second
		})
		require.False(t, a.holder.Trusted())
		m, _ := a.member(b.view)
		require.NoError(t, b.bucket.Kill(t.Context(), m))
		a.link.Heal()
		bubble.Until(t, 10*time.Second, "a new life", func() bool { return len(a.Lives()) == 2 })
		require.ErrorIs(t, a.Causes()[0], lease.ErrLost)
		require.NotEqual(t, zombie.Boot, a.me().Boot)
	})
}

func TestWedgedProcessLosesItsLease(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		b := join(t, s, lease.Authority, "a-2").hold()
		a.setProbe(errWedged)
		time.Sleep(31 * time.Second)
		m, _ := a.member(b.view)
		require.Greater(t, m.Quiet, 27*time.Second)
		require.False(t, a.holder.Trusted())
		a.setProbe(nil)
		bubble.Until(t, 4*time.Second, "renewed again", a.holder.Trusted)
		require.Len(t, a.Lives(), 1, "nobody had ended it")
	})
}

func TestUnansweredWritesAreHealed(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(l *bubble.Link)
	}{
		{"lost before", func(l *bubble.Link) { l.Lose(anyKey, 2) }},
		{"lost after", func(l *bubble.Link) { l.LoseAnswer(anyKey, 2) }},
		{"duplicated", func(l *bubble.Link) { l.Duplicate(anyKey, 3) }},
		{"delayed", func(l *bubble.Link) { l.Delay(anyKey, 2, 500*time.Millisecond) }},
		{"delayed beyond the attempt", func(l *bubble.Link) { l.Delay(anyKey, 2, 1500*time.Millisecond) }},
		{"read unanswered too", func(l *bubble.Link) { l.LoseAnswer(">", 6) }},
	} {
		t.Run("renewal/"+c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1").hold()
				c.fault(a.link)
				time.Sleep(30 * time.Second)
				require.Less(t, time.Since(a.holder.Renewed()), 4*time.Second)
				require.Len(t, a.Lives(), 1)
				require.Empty(t, a.Causes())
			})
		})
		t.Run("take/"+c.name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1")
				c.fault(a.link)
				a.hold()
				m, _ := a.member(a.view)
				require.Equal(t, a.me(), m.Process)
				require.True(t, a.holder.Trusted())
				time.Sleep(30 * time.Second)
				require.Len(t, a.Lives(), 1)
			})
		})
	}
}

func TestResignationIsFoundWhenTheTakeWasUnanswered(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		a.link.LoseAnswer(anyKey, -1)
		a.start()
		time.Sleep(10 * time.Second)
		require.NoError(t, a.run.Stop())
		require.Empty(t, a.Lives())
		m, ok := a.member(a.view)
		require.True(t, ok)
		require.False(t, m.Alive(), "what was written without an answer does not stand for a lease")
	})
}

// A process that drains still owns what it drains, and resigns when it has.
func TestLeaseIsRenewedWhileWorkEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		b := join(t, s, lease.Authority, "a-2")
		a.linger = time.Minute
		a.hold()
		stopped := bubble.Go(t, func(context.Context) error { return a.run.Stop() })
		for range 59 {
			time.Sleep(time.Second)
			require.True(t, a.holder.Trusted())
			m, _ := a.member(b.view)
			require.True(t, m.Alive())
		}
		require.NoError(t, stopped.Wait())
		time.Sleep(10 * time.Millisecond)
		m, _ := a.member(b.view)
		require.False(t, m.Alive())
	})
}

func TestWorkThatReturnsEndsTheHolder(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		h := lease.NewHolder(a.bucket, a.view, lease.HolderConfig{Role: lease.Authority, Node: "a-1"})
		err := h.Run(t.Context(), func(context.Context, schema.Process) error { return errWedged })
		require.ErrorIs(t, err, errWedged)
		time.Sleep(10 * time.Millisecond)
		m, ok := a.member(a.view)
		require.True(t, ok)
		require.False(t, m.Alive())
	})
}

// A boot that others ended before it knew that it stood never returns.
func TestBootDeclaredDeadBeforeItsFirstAnswerIsNotUsed(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		b := join(t, s, lease.Authority, "a-2")
		a := join(t, s, lease.Authority, "a-1")
		silence := make(chan *bubble.Rule, 1) // from its first write on it hears nothing
		a.link.Then(anyKey, func() { silence <- a.link.LoseIn(">", -1) })
		a.start()
		bubble.Until(t, time.Minute, "written", func() bool { _, ok := a.member(b.view); return ok })
		first, _ := a.member(b.view)
		require.NoError(t, b.bucket.Kill(t.Context(), first))
		(<-silence).Remove()
		bubble.Until(t, time.Minute, "taken", func() bool { return len(a.Lives()) == 1 })
		require.NotEqual(t, first.Process.Boot, a.me().Boot)
	})
}

// Another process that takes the name between two lives of ours has taken it over.
func TestNameTakenBetweenTwoLives(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		a.linger = 10 * time.Second
		a.hold()
		b := join(t, s, lease.Authority, "a-1")
		m, _ := a.member(b.view)
		require.NoError(t, b.bucket.Kill(t.Context(), m))
		bubble.Until(t, 5*time.Second, "lost", func() bool { return len(a.Causes()) == 1 })
		b.hold()
		require.ErrorIs(t, a.run.Wait(), lease.ErrTakenOver)
		require.ErrorIs(t, a.Causes()[0], lease.ErrLost)
		require.True(t, b.holder.Trusted())
	})
}

func TestClosedConnectionEndsTheHolder(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "standby")
		nc, _ := s.Dial("authority/a-1")
		b, err := lease.Open(t.Context(), nc, lease.Options{})
		require.NoError(t, err)
		h := lease.NewHolder(b, a.view, lease.HolderConfig{Role: lease.Authority, Node: "a-1"})
		run := bubble.Go(t, func(ctx context.Context) error {
			return h.Run(ctx, func(ctx context.Context, _ schema.Process) error { <-ctx.Done(); return nil })
		})
		time.Sleep(time.Second)
		nc.Close()
		require.ErrorIs(t, run.Wait(), nats.ErrConnectionClosed)
	})
}

// Over a new connection nothing is proven: when the former one ended, others may have ended the
// lease.
func TestNewConnectionIsTrustedOnceRenewedOver(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		time.Sleep(100 * time.Millisecond)
		before, _ := a.member(v.view)
		require.NotEmpty(t, before.Value.Conn)

		lost := a.link.Lose(anyKey, -1)
		a.link.Reset()
		bubble.Until(t, time.Second, "untrusted", func() bool { return !a.holder.Trusted() })
		bubble.Until(t, time.Second, "reconnected", a.nc.IsConnected)
		bubble.Until(t, 100*time.Millisecond, "renewed at once", func() bool { return lost.Hits() > 0 })
		time.Sleep(5 * time.Second)
		require.False(t, a.holder.Trusted())
		lost.Remove()
		bubble.Until(t, 2*time.Second, "trusted again", a.holder.Trusted)
		time.Sleep(100 * time.Millisecond)
		after, _ := a.member(v.view)
		require.NotEqual(t, before.Value.Conn, after.Value.Conn)
		require.Len(t, a.Lives(), 1)
	})
}

func TestRenewNow(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		time.Sleep(time.Second)
		before := a.holder.Renewed()
		a.holder.RenewNow()
		bubble.Until(t, 10*time.Millisecond, "renewed", func() bool { return a.holder.Renewed().After(before) })
	})
}

// Who may not write is told so: the server drops what is denied, and it shows as a time-out.
func TestDeniedWriteIsToldAloud(t *testing.T) {
	denied := prefix.BucketKey("gateway.*")
	config := `authorization { users: [
		{user: all, password: x}
		{user: reader, password: x, permissions: {publish: {deny: "` + denied + `"}}}
	]}`
	bubble.RunWith(t, bubble.Options{Config: config}, func(t *testing.T, s *bubble.Server) {
		all, _ := s.Dial("authority", nats.UserInfo("all", "x"))
		_, err := lease.Open(t.Context(), all, lease.Options{Create: true, Memory: true})
		require.NoError(t, err)
		log := &logged{}
		nc, _ := s.Dial("gateway", nats.UserInfo("reader", "x"))
		b, err := lease.Open(t.Context(), nc, lease.Options{})
		require.NoError(t, err)
		h := lease.NewHolder(b, lease.NewView(b, nil), lease.HolderConfig{Role: lease.Gateway, Node: "gw-1", Log: log.logger()})
		run := bubble.Go(t, func(ctx context.Context) error {
			return h.Run(ctx, func(context.Context, schema.Process) error { return errWedged })
		})
		bubble.Until(t, 3*time.Second, "told", func() bool {
			return log.has("level=WARN") && log.has("ermissions Violation for Publish") && log.has("gateway.gw-1")
		})
		require.NoError(t, run.Stop())
	})
}
