package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Events are kept on three servers, and the server that leads their stream is killed while users come
// and go. A backend's durable consumer gets every event, once in the stream and a user's in their order,
// and the bucket last_seen has everybody who went.
func TestKilledLeaderOfTheEvents(t *testing.T) {
	l := campaign(t)
	s := newStage(t, l, scene{pass: tenth(), servers: 3, events: true, sessions: schema.Slots, pushes: 20})
	r := process.Run(t, s.env(deploy.Operator, addresses(s.servers)), "", "setup", "--events", "--last-seen", "720h", "--grace", "0")
	require.Zero(t, r.Code, r.Err)
	kept, seen := s.streamNamed(prefix.EventStream()), s.streamNamed(prefix.LastSeenStream())
	require.Equal(t, 3, kept.CachedInfo().Config.Replicas, "as the bucket has")
	require.Equal(t, 3, seen.CachedInfo().Config.Replicas)

	begun := time.Now()
	a, heard := consume(t, s), listen(t, s)
	g := comeAndGo(s, 40)
	for range l.times(3, 1) {
		flow := a.count()
		until(t, patience, "events flow", func() bool { return a.count() > flow+100 })
		leader := s.leader(kept)
		before, killed := a.count(), time.Now()
		leader.kill()
		gone := time.Now()
		until(t, patience, "the stream takes events again", func() bool { return a.count() > before+200 && s.probe.calm(gone) })
		t.Logf("%s killed, 200 events on after %v", leader.name, time.Since(killed).Round(time.Millisecond))
		leader.start()
		until(t, patience, "all replicas are current", func() bool { return s.current(kept) && s.current(seen) })
	}
	uids := g.stop()
	a.requireAll(kept, heard(), uids)
	s.requireSeen(uids)
	require.Empty(t, s.owners.since(begun), "a slot has another owner")
	t.Logf("%d logins, %d events kept, each once", len(uids), a.count())
}

// audit is a durable consumer of the events, as a backend has one.
type audit struct {
	t *testing.T

	mu   sync.Mutex
	kept map[uint64]schema.Event // by their place in the stream
	bad  []string
}

// consume begins to consume, with what deploy/nats.conf permits a backend.
func consume(t *testing.T, s *stage) *audit {
	t.Helper()
	a := &audit{t: t, kept: map[uint64]schema.Event{}}
	js, err := jetstream.New(connect(t, s.servers, deploy.Backend, "faults/audit"))
	require.NoError(t, err)
	c, err := js.CreateOrUpdateConsumer(t.Context(), prefix.EventStream(), jetstream.ConsumerConfig{
		Durable: "audit", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	require.NoError(t, err)
	consuming, err := c.Consume(a.take)
	require.NoError(t, err)
	t.Cleanup(func() { consuming.Stop(); <-consuming.Closed() })
	return a
}

// take takes an event. One that comes again, since its acknowledgement was lost, is the same.
func (a *audit) take(m jetstream.Msg) {
	var e schema.Event
	at, err := m.Metadata()
	if err == nil {
		err = json.Unmarshal(m.Data(), &e)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.bad = append(a.bad, err.Error())
		return
	}
	if was, again := a.kept[at.Sequence.Stream]; again && (was.UID != e.UID || was.Stamp != e.Stamp) {
		a.bad = append(a.bad, fmt.Sprintf("%d was %v of %s and is %v of %s", at.Sequence.Stream, was.Stamp, was.UID, e.Stamp, e.UID))
	}
	a.kept[at.Sequence.Stream] = e
	_ = m.Ack() // one that is lost has the event come again
}

func (a *audit) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.kept)
}

// mark is what makes an event itself.
type mark struct {
	uid   schema.UID
	stamp schema.Stamp
}

// requireAll waits until the consumer has the whole stream, and requires that it has what others have
// heard, each once, a user's in order, and of each who was in that he came and went.
func (a *audit) requireAll(kept jetstream.Stream, heard map[mark]int, uids []schema.UID) {
	t := a.t
	t.Helper()
	until(t, patience, "the stream has all, and the consumer too", func() bool {
		info, err := kept.Info(t.Context())
		return err == nil && a.complete(uids, heard) && uint64(a.count()) == info.State.LastSeq
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Empty(t, a.bad)
	last, once := map[schema.UID]schema.Event{}, map[mark]bool{}
	for n := uint64(1); n <= uint64(len(a.kept)); n++ {
		e, ok := a.kept[n]
		require.True(t, ok, "the consumer has not got %d", n)
		require.NotEqual(t, schema.EventRebuilt, e.Type, "the stream has lost something for good")
		require.False(t, once[mark{e.UID, e.Stamp}], "%v of %s twice", e.Stamp, e.UID)
		once[mark{e.UID, e.Stamp}] = true
		before := last[e.UID]
		require.Negative(t, before.Stamp.Compare(e.Stamp), "%s: %v after %v", e.UID, e.Stamp, before.Stamp)
		require.Equal(t, before.Type == schema.EventOnline, e.Type == schema.EventOffline, "%s: %s after %s", e.UID, e.Type, before.Type)
		last[e.UID] = e
	}
	again := 0
	for _, n := range heard {
		if n > 1 {
			again++
		}
	}
	t.Logf("%d events heard without the stream, %d of them again, since they were sent to it once more", len(heard), again)
	require.NotZero(t, again)
}

// complete reports whether each user's last event says that he went, and all that was heard is kept.
func (a *audit) complete(uids []schema.UID, heard map[mark]int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	gone, has := map[schema.UID]schema.Event{}, map[mark]bool{}
	for _, e := range a.kept {
		has[mark{e.UID, e.Stamp}] = true
		if gone[e.UID].Stamp.Compare(e.Stamp) < 0 {
			gone[e.UID] = e
		}
	}
	for m := range heard {
		if !has[m] {
			return false
		}
	}
	return !slices.ContainsFunc(uids, func(uid schema.UID) bool { return gone[uid].Type != schema.EventOffline })
}

// listen hears the events of users as they are published; what it gives tells how often each was heard.
func listen(t *testing.T, s *stage) func() map[mark]int {
	t.Helper()
	var mu sync.Mutex
	heard := map[mark]int{}
	nc := connect(t, s.servers, deploy.Backend, "faults/listener")
	sub, err := nc.Subscribe(prefix.AllEvents(), func(m *nats.Msg) {
		var e schema.Event
		if json.Unmarshal(m.Data, &e) == nil && e.UID != "" {
			mu.Lock()
			defer mu.Unlock()
			heard[mark{e.UID, e.Stamp}]++
		}
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return func() map[mark]int {
		_ = sub.Unsubscribe() // one more may be on its way to heard
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(heard)
	}
}

// guests are users who come once and go.
type guests struct {
	mu   sync.Mutex
	uids []schema.UID // those who were in

	end func()
}

// comeAndGo has guests visit, some at a time, until stop.
func comeAndGo(s *stage, width int) *guests {
	g := &guests{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	g.end = sync.OnceFunc(func() { cancel(); running.Wait() })
	s.t.Cleanup(g.end)
	for i := range width {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				g.visit(ctx, s.gateways[(i+n)%len(s.gateways)], schema.UID(fmt.Sprintf("guest-%d-%d", i, n)))
			}
		})
	}
	return g
}

// visit is one guest: in for a moment, then away with a goodbye.
func (g *guests) visit(ctx context.Context, at *unit, uid schema.UID) {
	c, err := ws.New(ws.Config{
		URL: "ws://" + at.address + "/ws", Token: ws.FixedToken(string(uid)), Device: "guest",
		BackoffLeast: 50 * time.Millisecond, BackoffMost: 500 * time.Millisecond,
	})
	if err != nil {
		panic(err) // the configuration is a constant
	}
	in, leave := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer leave()
	running.Go(func() { _ = c.Run(in) }) // it ends when the guest leaves
	if c.Ready(in) != nil {
		return
	}
	g.mu.Lock()
	g.uids = append(g.uids, uid)
	g.mu.Unlock()
	select {
	case <-time.After(rand.N(400 * time.Millisecond)):
	case <-ctx.Done():
	}
}

// stop has all leave, and gives who was in.
func (g *guests) stop() []schema.UID {
	g.end()
	return g.uids
}

// requireSeen waits until look-ups tell of all when they were last there.
func (s *stage) requireSeen(uids []schema.UID) {
	s.t.Helper()
	until(s.t, patience, "everybody who went is in last_seen", func() bool {
		for len(uids) > 0 {
			some := uids[:min(len(uids), schema.MaxCallUIDs)]
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			reply, err := call[schema.LookupReply](ctx, s.backend, "lookup", schema.LookupCall{UIDs: some, LastSeen: true})
			cancel()
			if err != nil {
				return false
			}
			for _, u := range reply.Results {
				if u.State != schema.Offline || u.LastSeen == "" {
					return false
				}
			}
			uids = uids[len(reply.Results):] // where they did not fit, the rest is asked for next
		}
		return true
	})
}
