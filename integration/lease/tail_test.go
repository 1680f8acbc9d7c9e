package lease

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// onDisk makes the bucket where the server keeps it over a restart.
func onDisk(t *testing.T, s *bubble.Server) {
	t.Helper()
	nc, _ := s.Dial("authority")
	_, err := lease.Open(t.Context(), nc, lease.Options{Create: true})
	require.NoError(t, err)
}

func (n *node) last() schema.Revision {
	n.t.Helper()
	stream, err := n.js().Stream(n.t.Context(), prefix.BucketStream())
	require.NoError(n.t, err)
	return schema.Revision(stream.CachedInfo().State.LastSeq)
}

// What was heard of the tail that a log has lost was heard of another log: a view falls with it, by its
// reading or, where it cannot read, by a notice.
func TestRevisionFallsWithALostTail(t *testing.T) {
	for name, blind := range map[string]bool{"by a snapshot": false, "by a notice": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				onDisk(t, s)
				join(t, s, lease.Authority, "a-1").hold()
				v := join(t, s, lease.Gateway, "viewer")
				time.Sleep(10 * time.Second)
				loseTail := s.Keep()
				time.Sleep(5 * time.Minute)
				synctest.Wait() // a renewal that is due now is there
				heard := v.view.Revision()
				require.Equal(t, v.last(), heard)
				var reads *bubble.Rule
				if blind {
					reads = v.link.Lose("$JS.API.>", -1)
				}
				loseTail()
				bubble.Until(t, 20*time.Second, "it falls", func() bool { return v.view.Revision() < heard })
				if blind {
					require.Zero(t, v.view.Revision(), "nobody knows where the log fell to")
					require.True(t, v.log.has("given out again"))
					reads.Remove()
				}
				for range 100 {
					time.Sleep(10 * time.Second)
					synctest.Wait()
					require.Equal(t, v.last(), v.view.Revision())
				}
				require.Greater(t, v.view.Revision(), heard)
			})
		})
	}
}

// A gateway said that it had no session at a revision which a log has lost since. What it says while it
// has some counts for nothing once the log has grown beyond that again: slots may have changed their
// owners there, and these would not wait for it.
func TestASinceOfALostTailIsNeverSaidAgain(t *testing.T) {
	for name, away := range map[string]bool{"there": false, "cut off until the log has grown again": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				onDisk(t, s)
				a := join(t, s, lease.Authority, "a-1").hold()
				g := join(t, s, lease.Gateway, "gw-1")
				var since atomic.Uint64
				said := g.say(a.view, &since)
				time.Sleep(10 * time.Second)
				loseTail := s.Keep()
				time.Sleep(5 * time.Minute)
				lost := g.view.Revision()
				since.Store(uint64(lost))
				time.Sleep(10 * time.Second)
				require.Equal(t, lost, said())
				if away {
					g.link.Cut()
				}
				loseTail()
				time.Sleep(20 * time.Second) // who is there is connected again, and has renewed
				for a.last() < lost+100 {
					require.Zero(t, said(), "%d is said at %d", lost, a.last())
					time.Sleep(time.Second)
					if a.last() > lost+50 {
						g.link.Heal()
					}
				}
				require.True(t, g.holder.Trusted())
				require.Len(t, g.Lives(), 1)
			})
		})
	}
}

// The key itself is older than what was lost, and is renewed where it stands. What it says then is not
// below its own revision, and stays void.
func TestASinceAboveItsOwnKeyIsNeverSaidAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1")
		var since atomic.Uint64
		said := g.say(a.view, &since)
		time.Sleep(10 * time.Second)
		lost := a.last() + 20
		since.Store(uint64(lost))
		for a.last() < lost+20 {
			require.Zero(t, said(), "%d is said at %d", lost, a.last())
			time.Sleep(time.Second)
		}
	})
}

// say holds a lease whose key says since, and gives what a view has heard of that.
func (n *node) say(in *lease.View, since *atomic.Uint64) (said func() schema.Revision) {
	n.holder = lease.NewHolder(n.bucket, n.view, lease.HolderConfig{
		Role: n.role, Node: n.name,
		Describe: func() schema.ProcessValue { return schema.ProcessValue{Since: schema.Revision(since.Load())} },
	})
	n.run = bubble.Go(n.t, func(ctx context.Context) error { return n.holder.Run(ctx, n.work) })
	return func() schema.Revision {
		m, ok := n.member(in)
		require.True(n.t, ok)
		return m.Value.Since
	}
}
