package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestNewLife loses the lease: sockets stay, learn their new name, and are synced under it with the
// orders of their logins.
func TestNewLife(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		require.Equal(t, schema.Revision(77), st.g.describe().Since)
		d := st.hello("alice", "d1")
		require.Equal(t, schema.Revision(77), st.g.describe().Since, "this boot began without sockets")
		before := st.me()
		oldLife := st.g.life.Load()
		old := st.sessionOf(d)
		st.holder.end(lease.ErrLost)
		synctest.Wait()
		d.send(schema.ClientFrame{Type: schema.TypePing})
		d.next(schema.TypePong)
		require.Equal(t, schema.PushUnknown, old.push(oldLife, 99, &message{push: &schema.PushFrame{}}, nil))
		pass(time.Minute)

		st.with(func(m *fakeMesh) { m.synced, m.leaves = nil, nil })
		st.holder.begin()
		f := d.next(schema.TypeConnected)
		require.NotEqual(t, before, st.me())
		require.Equal(t, st.me().Boot, f.Boot)
		require.NotEqual(t, d.session, f.Session)
		d.session = f.Session
		synctest.Wait()
		st.with(func(m *fakeMesh) {
			require.Len(t, m.synced, 1)
			require.Equal(t, schema.Order{Fence: 100, N: 1}, m.synced[0].Order)
			require.Equal(t, st.me(), m.synced[0].Owner)
			require.Equal(t, schema.OwnerSeq(1), m.synced[0].Seq, "a boot counts from 1")
			require.Equal(t, time.Minute, m.synced[0].Age.Truncate(time.Minute))
		})
		require.Zero(t, st.g.describe().Since, "it took over a socket")
		require.Equal(t, schema.PushWritten, st.push(d, "alice", "m", false))
		d.next(schema.TypeRecv)
		d.ws.CloseNow()
		pass(time.Second)
		st.with(func(m *fakeMesh) {
			require.Len(t, m.leaves, 1)
			require.Equal(t, schema.OwnerSeq(2), m.leaves[0].Seq)
		})
		require.Zero(t, st.g.describe().Since)
	})
}

// TestLifeEndsWhileLoggingIn does not let a login of one life become active in the next.
func TestLifeEndsWhileLoggingIn(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		release := make(chan struct{})
		st.with(func(m *fakeMesh) {
			m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
				<-release
				return schema.LoginResult{}, nil
			}
		})
		d := st.begin("alice")
		synctest.Wait()
		st.holder.end(lease.ErrLost)
		st.holder.begin()
		synctest.Wait()
		close(release)
		require.Equal(t, schema.FrameUnavailable, d.next(schema.TypeError).Code)
		require.Equal(t, schema.CloseNotNow, d.code())
		synctest.Wait()
		require.Zero(t, st.g.registry.len())
	})
}

// TestNoLifeForLong closes the sessions after a TTL: nobody can reach them.
func TestNoLifeForLong(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		pass(10 * time.Minute)
		start := time.Now()
		st.holder.end(lease.ErrLost)
		require.Equal(t, schema.CloseMeshLost, d.code())
		require.InDelta(t, 105, time.Since(start).Seconds(), 25)
	})
}

// TestSocketsOfALostMeshCloseSpreadOut has many clients, whose networks are all well, lose the mesh together:
// none is closed within a TTL, all are by a flush and two heartbeats later, and no second closes them all at once.
func TestSocketsOfALostMeshCloseSpreadOut(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		const many = 150
		var devices []*device
		for i := range many {
			devices = append(devices, st.hello(schema.UID(fmt.Sprint("user ", i)), "d1"))
		}
		pass(time.Minute)
		start := time.Now()
		st.holder.end(lease.ErrLost)
		ends := make(chan time.Duration, many)
		for _, d := range devices {
			go func() { <-d.ended; ends <- time.Since(start) }()
		}
		in := map[int]int{}
		for range many {
			after := <-ends
			require.Greater(t, after, 80*time.Second, "when the mesh was lost, no sign of life had waited for longer than a flush")
			require.Less(t, after, 130*time.Second)
			in[int(after.Seconds())]++
		}
		for second, n := range in {
			require.LessOrEqual(t, n, many/4, "in second %d, of %v", second, in)
		}
		require.GreaterOrEqual(t, len(in), 8, "%v", in)
		for _, d := range devices {
			require.Equal(t, schema.CloseMeshLost, d.code())
			require.NotZero(t, d.next(schema.TypeError).RetryAfterMS)
		}
	})
}

// TestTakenOver ends the gateway: another process has its name.
func TestTakenOver(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		st.holder.end(lease.ErrTakenOver)
		require.Equal(t, schema.CloseMeshLost, d.code())
		<-st.done
		require.ErrorIs(t, st.err, lease.ErrTakenOver)
	})
}

// TestDrain closes the sessions one by one, tells the authorities, and refuses who comes.
func TestDrain(t *testing.T) {
	change := func(c *Config) { c.Drain = Drain{Wait: 3 * time.Second, Rate: 1} }
	perform(t, change, func(t *testing.T, st *stage) {
		var devices []*device
		for _, u := range []schema.UID{"alice", "bob", "carol"} {
			devices = append(devices, st.hello(u, "d1"))
		}
		start := time.Now()
		st.stop()
		pass(time.Second)
		require.ErrorContains(t, st.g.Ready(), "draining")
		require.Equal(t, schema.StateLeaving, st.g.describe().State)
		status, retry, _, _ := st.handshake(nil)
		require.Equal(t, 503, status)
		require.Equal(t, "5", retry)
		var ends []time.Duration
		done := make(chan time.Duration)
		for _, d := range devices {
			go func() { <-d.ended; done <- time.Since(start) }()
		}
		for range devices {
			ends = append(ends, <-done)
		}
		require.Equal(t, []time.Duration{3 * time.Second, 4 * time.Second, 5 * time.Second}, ends)
		for _, d := range devices {
			require.Equal(t, schema.CloseGoingAway, d.code())
			require.NotZero(t, d.next(schema.TypeError).RetryAfterMS)
		}
		<-st.done
		require.NoError(t, st.err)
		st.with(func(m *fakeMesh) {
			require.Len(t, m.leaves, 3)
			require.Equal(t, schema.ReasonDrained, m.leaves[0].Reason)
		})
	})
}

// TestDrainOfADisplacedSession has another login put a session out just before its gateway ends: the
// gateway waits for that login's commit, then for the answer to its unregister.
func TestDrainOfADisplacedSession(t *testing.T) {
	change := func(c *Config) { c.Drain = Drain{Wait: 100 * time.Millisecond} }
	perform(t, change, func(t *testing.T, st *stage) {
		s := st.sessionOf(st.hello("alice", "d1"))
		st.stop()
		synctest.Wait()
		start := time.Now()
		require.Equal(t, schema.CodeOK, st.g.kicked(schema.KickEntry{UID: "alice", Session: s.num, Fence: 100, Close: schema.CloseReplaced}))
		<-st.done
		require.InDelta(t, commitWait, time.Since(start), float64(50*time.Millisecond))
		st.with(func(m *fakeMesh) {
			require.Len(t, m.leaves, 1)
			require.Equal(t, schema.ReasonReplaced, m.leaves[0].Reason)
		})
	})
}

// TestDrainUnanswered does not wait for ever for authorities that do not answer.
func TestDrainUnanswered(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onUnregister = func(schema.Target, []schema.Leave) ([]schema.Code, error) {
				time.Sleep(2 * time.Second)
				return nil, errors.New("deaf")
			}
		})
		st.hello("alice", "d1")
		start := time.Now()
		st.stop()
		<-st.done
		require.InDelta(t, 5, time.Since(start).Seconds(), 2.1)
	})
}

// TestListenerFails ends the gateway with the listener's error.
func TestListenerFails(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.hello("alice", "d1")
		st.ln.Close()
		<-st.done
		require.ErrorIs(t, st.err, net.ErrClosed)
	})
}

// TestProbe reports a serving loop that takes no probe.
func TestProbe(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		require.NoError(t, st.g.probe(t.Context()))
		served := st.g.life.Load()
		st.g.life.Store(st.g.newLife(t.Context(), st.me())) // whose loops nobody runs
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, st.g.probe(ctx), lease.ErrWedged)
		st.g.life.Store(served)
	})
}
