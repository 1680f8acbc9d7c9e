package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestNetworkGoesSilent cuts a client's network without a word: its route is gone two heartbeats
// later, and not before.
func TestNetworkGoesSilent(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		time.Sleep(time.Second)
		d.link.Cut()
		time.Sleep(50 * time.Second)
		require.Equal(t, schema.Online, m.find("alice").State)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m"), "into a socket that nobody reads")
		time.Sleep(15 * time.Second)
		require.Equal(t, schema.Offline, m.find("alice").State)
		d.link.Heal()
		bubble.Until(t, time.Minute, "client is back", func() bool { return m.find("alice").State == schema.Online })
	})
}

// TestHalfOpen closes a client's end while its network is cut: the gateway's end stays half open.
func TestHalfOpen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		d.link.Cut()
		require.NoError(t, d.run.Stop())
		time.Sleep(70 * time.Second)
		require.Equal(t, schema.Offline, m.find("alice").State)
		d.link.Reset()
	})
}

// TestClientKilled breaks a client's connection without a close.
func TestClientKilled(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		d.link.Reset()
		bubble.Until(t, time.Second, "offline", func() bool { return m.find("alice").State == schema.Offline })
		bubble.Until(t, 2*time.Second, "client is back", func() bool { return m.find("alice").State == schema.Online })
	})
}

// TestSlowReaderAlone has a client that takes its messages too slowly among others: it alone is put
// out, and the others get theirs at once.
func TestSlowReaderAlone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		stuck := make(chan struct{})
		g.login(t, "alice", "slow", func(c *client.Config) { c.OnMessage = func(client.Message) { <-stuck } })
		t.Cleanup(sync.OnceFunc(func() { close(stuck) }))
		quick := g.login(t, "bob", "quick")
		m.payload = `"` + strings.Repeat("x", 4096) + `"`
		results := map[schema.PushResult]int{}
		for i := range 1500 {
			r := m.find("alice").Routes
			if len(r) == 0 {
				break
			}
			results[m.pushOne(r[0], fmt.Sprint(i))]++
		}
		require.Greater(t, results[schema.PushQueueFull], 0)
		at := time.Now()
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("bob", "m"))
		bubble.Until(t, 100*time.Millisecond, "the other's message", func() bool { return quick.got() == 1 })
		require.Less(t, time.Since(at), 100*time.Millisecond)
		time.Sleep(15 * time.Second)
		require.Empty(t, m.find("alice").Routes)
		require.Equal(t, schema.Online, m.find("bob").State)
	})
}

// TestRouteStaysFresh looks at an idle client's route for five minutes: it appears at once, its time to
// live never falls below half, and it goes with its client.
func TestRouteStaysFresh(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		for range 100 {
			time.Sleep(3 * time.Second)
			r := m.find("alice").Routes
			require.Len(t, r, 1)
			require.Greater(t, r[0].TTL, 45*time.Second)
		}
		require.NoError(t, d.run.Stop())
		bubble.Until(t, time.Second, "route gone", func() bool { return len(m.find("alice").Routes) == 0 })
	})
}

// TestTouchesUnanswered cuts a gateway off from its authority for longer than a TTL: no client hangs
// on it that nobody can reach.
func TestTouchesUnanswered(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1", func(c *client.Config) { c.BackoffLeast, c.BackoffMost = time.Hour, time.Hour })
		time.Sleep(time.Second)
		start := time.Now()
		g.link.Lose("slot.*.*.touch", -1)
		bubble.Until(t, 3*time.Minute, "client put out", func() bool { _, ok := d.Session(); return !ok })
		require.InDelta(t, 120, time.Since(start).Seconds(), 35)
	})
}
