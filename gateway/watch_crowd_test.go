package gateway

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// crowd is a gateway with many sessions that have no sockets: what watching costs, and nothing else.
type crowd struct {
	t        *testing.T
	g        *Gateway
	bus      *fakeBus
	sessions []*session
}

func gather(t *testing.T, n int) *crowd {
	t.Helper()
	view, mesh, bus := newFakeView(), newFakeMesh(), new(fakeBus)
	mesh.view = view
	g := newGateway(bus, bus, view, Config{Node: "gw-1", Auth: Insecure{}}.withDefaults())
	g.mesh = mesh
	t.Cleanup(g.stop)
	c := &crowd{t: t, g: g, bus: bus, sessions: make([]*session, n)}
	for i := range c.sessions {
		c.sessions[i] = &session{g: g, wake: make(chan struct{}, 1), state: active}
	}
	return c
}

func (c *crowd) watch(s *session, uids ...schema.UID) {
	topics := c.g.watches.reserve(s, uids, c.g.config.Limits.Watches)
	require.NotNil(c.t, topics)
	c.g.watches.begin(c.t.Context(), s, topics)
}

func (c *crowd) event(u schema.UID, k uint64) *nats.Msg {
	data, err := json.Marshal(schema.Event{
		Type: schema.EventOnline, Slot: slotOf(u), UID: u, Stamp: stamp(100, k), Reason: schema.ReasonConnect,
		Route: &schema.EventRoute{Node: owner.Node, Boot: owner.Boot, Session: "s", Device: "phone-1", Flag: "app", Level: "master"},
	})
	require.NoError(c.t, err)
	return &nats.Msg{Data: data}
}

// drain takes what waits for each session, and gives how many frames that were.
func (c *crowd) drain() (frames int) {
	for _, s := range c.sessions {
		waiting, _, _ := s.take()
		frames += len(waiting)
	}
	return frames
}

// TestTenThousandWatchersOfOneUser: one subscription, and little memory and time for each.
func TestTenThousandWatchersOfOneUser(t *testing.T) {
	const watchers, changes = 10_000, 20
	c := gather(t, watchers)
	before := used()
	for _, s := range c.sessions {
		c.watch(s, "bob")
	}
	require.Equal(t, watchers, c.drain())
	require.Equal(t, 1, c.bus.subscribed(), "beside that of all slots, which hub.run makes")
	c.g.watches.tell() // nobody is left to be told
	memory := used() - before
	var took time.Duration
	for k := range uint64(changes) {
		m := c.event("bob", k+1)
		start := time.Now()
		c.g.watches.event(m)
		c.g.watches.tell()
		took += time.Since(start)
		require.Equal(t, watchers, c.drain())
	}
	t.Logf("a user with %d watchers: %d KiB and %v a change for each 1,000 of them, to the frame in each queue",
		watchers, memory/(watchers/1000)>>10, (took / changes / (watchers / 1000)).Round(time.Microsecond))
	require.Less(t, memory/watchers, uint64(500), "bytes a watcher")
	for _, s := range c.sessions {
		c.g.watches.leave(s)
	}
	users, sessions, pairs := c.g.watches.counts()
	require.Equal(t, [3]int{}, [3]int{users, sessions, pairs})
}

// TestThousandWatchersOfThousandUsers: a million pairs, through a change of every user.
func TestThousandWatchersOfThousandUsers(t *testing.T) {
	const n = 1000
	c := gather(t, n)
	uids := make([]schema.UID, n)
	for i := range uids {
		uids[i] = schema.UID(fmt.Sprintf("user-%04d", i))
	}
	before := used()
	for _, s := range c.sessions {
		c.watch(s, uids...)
	}
	require.Equal(t, n, c.drain())
	require.Equal(t, n, c.bus.subscribed(), "one a user")
	memory := used() - before
	start := time.Now()
	for _, u := range uids {
		c.g.watches.event(c.event(u, 1))
	}
	marked := time.Since(start)
	start = time.Now()
	c.g.watches.tell()
	frames := c.drain()
	t.Logf("a million pairs: %d MiB; a change of each: marked in %v, told in %v, in %d frames",
		memory>>20, marked.Round(time.Millisecond), time.Since(start).Round(time.Millisecond), frames)
	require.Equal(t, n, frames, "one for each watcher, with all that has changed")
	require.Less(t, memory/(n*n), uint64(120), "bytes a pair")
}
