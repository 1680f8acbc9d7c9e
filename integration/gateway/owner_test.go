package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestAuthorityGone cuts one of two authorities off: its slots are claimed when its lease ends, the
// gateways tell the survivor unasked, and nobody is called offline in between.
func TestAuthorityGone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		second := startAuthority(t, s, "a-2")
		time.Sleep(30 * time.Second)
		gates := []*gate{startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")}
		const users = 40
		uid := func(i int) schema.UID { return schema.UID(fmt.Sprint("u", i)) }
		devices := make([]*device, users)
		for i := range devices {
			devices[i] = gates[i%2].login(t, uid(i), "d1")
		}
		second.link.Cut()
		for range 60 {
			for i := range devices {
				require.NotEqual(t, schema.Offline, m.find(uid(i)).State)
			}
			time.Sleep(time.Second)
		}
		for i, d := range devices {
			require.Equal(t, schema.Online, m.find(uid(i)).State)
			require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo(uid(i), "m"))
			bubble.Until(t, time.Second, "message", func() bool { return d.got() == 1 })
		}
		second.link.Heal()
		time.Sleep(5 * time.Second)
	})
}

// TestAuthorityRestarts ends the only authority and starts another: logins wait or are told to come
// back, and all are in afterwards, the old ones with their sockets.
func TestAuthorityRestarts(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s)
		first := startAuthority(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		old := g.login(t, "alice", "d1")
		session := old.ready().Session
		require.NoError(t, first.run.Stop())
		late := g.connect(t, "bob", "d1")
		time.Sleep(20 * time.Second)
		require.Equal(t, schema.Unknown, m.find("alice").State)
		_, in := late.Session()
		require.False(t, in)
		startAuthority(t, s, "a-2")
		bubble.Until(t, 30*time.Second, "both are in", func() bool {
			return m.find("alice").State == schema.Online && m.find("bob").State == schema.Online
		})
		require.Equal(t, session, old.ready().Session)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m"))
	})
}

// TestSameDeviceAcrossAFailover leaves two sockets of one device, of which a new authority learns by
// syncs alone: the later login wins, whichever is told of first, and the other is closed.
func TestSameDeviceAcrossAFailover(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s)
		first := startAuthority(t, s, "a-1")
		g1, g2 := startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")
		a := g1.login(t, "alice", "d1")
		g2.link.Lose("kick.>", -1) // it is put out without a word, and never kicked
		b := g2.login(t, "alice", "d1")
		require.NoError(t, first.run.Stop())
		startAuthority(t, s, "a-2")
		require.Equal(t, schema.CloseReplaced, a.stopped(), "its order is the lower one")
		time.Sleep(10 * time.Second)
		r := m.find("alice").Routes
		require.Len(t, r, 1)
		require.Equal(t, b.ready().Session, r[0].Session.Outside(r[0].Owner.Boot))
	})
}

// TestLeaseLost declares a gateway dead while it lives: it takes a new boot, its clients keep their
// sockets and learn their new names, and are found under them.
func TestLeaseLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		before := d.ready()
		nc, _ := s.Dial("killer")
		b, view := join(t, nc)
		var gone lease.Member
		for _, one := range view.Members(lease.Gateway) {
			gone = one
		}
		require.NoError(t, b.Kill(t.Context(), gone))
		bubble.Until(t, 10*time.Second, "another name", func() bool {
			info, ok := d.Session()
			return ok && info.Session != before.Session
		})
		bubble.Until(t, 10*time.Second, "found under it", func() bool {
			r := m.find("alice").Routes
			return len(r) == 1 && r[0].Session.Outside(r[0].Owner.Boot) == d.ready().Session
		})
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m"))
		bubble.Until(t, time.Second, "message", func() bool { return d.got() == 1 })
	})
}

// TestNameTaken starts a second gateway under the name of one that lives: it refuses to start.
func TestNameTaken(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		other := newGate(t, s, "gw-1")
		require.ErrorIs(t, other.Run(t.Context()), lease.ErrNameTaken)
		d.ready()
	})
}

// TestTakenOver starts a second gateway under the name of one that is cut off: when the first comes
// back, it closes its clients and ends.
func TestTakenOver(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := newGate(t, s, "gw-1")
		done := make(chan error, 1)
		go func() { done <- g.Run(t.Context()) }()
		bubble.Until(t, 5*time.Second, "gateway ready", func() bool { return g.Ready() == nil })
		d := g.login(t, "alice", "d1")
		g.link.Reset()
		g.link.Cut()
		g.push.Cut()
		time.Sleep(time.Second)
		second := startGateway(t, s, "gw-1")
		require.Equal(t, schema.Offline, m.find("alice").State, "the old boot counts for nothing")
		g.link.Heal()
		g.push.Heal()
		require.ErrorIs(t, <-done, lease.ErrTakenOver)
		bubble.Until(t, time.Second, "client has lost its session", func() bool { _, in := d.Session(); return !in })
		second.login(t, "alice", "d1")
		require.Equal(t, schema.Online, m.find("alice").State)
	})
}

// TestDrained ends a gateway in order: its clients are told to come back, its routes are gone, and
// nobody waits for its lease.
func TestDrained(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		const clients = 20
		events := m.events("u7")
		for i := range clients {
			g.login(t, schema.UID(fmt.Sprint("u", i)), "d1")
		}
		start := time.Now()
		require.NoError(t, g.run.Stop())
		require.Less(t, time.Since(start), 2*time.Second)
		for i := range clients {
			require.Equal(t, schema.Offline, m.find(schema.UID(fmt.Sprint("u", i))).State)
		}
		require.Equal(t, schema.EventOnline, (<-events).Type)
		last := <-events
		require.Equal(t, schema.EventOffline, last.Type)
		require.Equal(t, schema.ReasonDrained, last.Reason)
		again := startGateway(t, s, "gw-1")
		require.Less(t, time.Since(start), 3*time.Second)
		again.login(t, "u7", "d1")
	})
}

// TestNATSGone stops the NATS server: sockets stay, new clients are told to come back, and when it
// is there again everything goes on.
func TestNATSGone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		session := d.ready().Session
		s.Stop()
		late := g.connect(t, "bob", "d1")
		time.Sleep(15 * time.Second)
		_, in := late.Session()
		require.False(t, in)
		require.Equal(t, session, d.ready().Session)
		s.Start()
		late.ready()
		bubble.Until(t, 30*time.Second, "alice found", func() bool { return m.find("alice").State == schema.Online })
		require.Equal(t, session, d.ready().Session)
	})
}
