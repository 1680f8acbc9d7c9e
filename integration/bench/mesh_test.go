package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// users is how many one large gateway has, and nine others together.
const users = 100_000

// BenchmarkMesh measures the operations of an authority.
func BenchmarkMesh(b *testing.B) {
	s := newStage(b)
	s.join(b, 10)
	large := s.load(b, s.lives[0], "large", users)
	for i, l := range s.lives[1:] {
		s.load(b, l, fmt.Sprintf("u%d", i), users/9)
	}
	b.Run("lookup-1000", s.lookup1000)
	b.Run("lookup-512-callers", s.lookupCallers)
	b.Run("register", s.register)
	b.Run("events", s.events)
	b.Run("sync-1000", s.sync1000)
	b.Run("touch", func(b *testing.B) { s.touch(b, large) })
}

// procs are those whose CPU an operation on the authority takes, beside this one's.
func (s *stage) procs() []*child { return []*child{s.nats, s.authority} }

func (s *stage) rawProcs() []*child { return []*child{s.nats, s.echo} }

// someone is a user who is online.
func (s *stage) someone() schema.UID { return s.uids[rand.IntN(len(s.uids))] }

func (s *stage) online(uids []schema.UID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, f := range s.client.Lookup(ctx, uids) {
		if f.State != schema.Online || len(f.Routes) != 1 {
			return fmt.Errorf("%s is %s with %d routes: %s", f.UID, f.State, len(f.Routes), f.Why)
		}
	}
	return nil
}

func (s *stage) lookup1000(b *testing.B) {
	uids := make([]schema.UID, 1000)
	look := func(n int) error {
		for range n {
			for i := range uids {
				uids[i] = s.someone()
			}
			if err := s.online(uids); err != nil {
				return err
			}
		}
		return nil
	}
	comparison{
		name: "look-up of 1,000 uids", unit: "uid", units: 1000, act: look, procs: s.procs(),
		raw: s.bare(sizeOf(b, s.asks, look)), rawProcs: s.rawProcs(), limit: limit{micros: 1.3},
	}.run(b)
}

func (s *stage) lookupCallers(b *testing.B) {
	const callers = 512
	one := func(_, _ int) error { return s.online([]schema.UID{s.someone()}) }
	size := sizeOf(b, s.asks, parallel(1, one))
	request, subject := make([]byte, size.request), rawSubject(size.answer)
	comparison{
		name: "single look-ups, 512 callers", unit: "look-up", units: 1, act: parallel(callers, one), procs: s.procs(),
		raw:      parallel(callers, func(_, _ int) error { return request1(s.raw, subject, request) }),
		rawProcs: s.rawProcs(), limit: limit{raws: 1.0 / 3},
	}.run(b)
}

func (s *stage) register(b *testing.B) {
	l, i := s.lives[0], 0
	login := func(n int) error {
		for range n {
			i++
			l.settle()
			route := l.route(name("new", i))
			t, err := s.client.Target(context.Background(), subjects.SlotOf(route.UID))
			if err != nil {
				return err
			}
			got, err := s.client.Register(context.Background(), t, schema.Login{Route: route, Left: 5 * time.Second})
			if err != nil || got.Code != schema.CodeOK {
				return fmt.Errorf("register %s: %s %w", route.UID, got.Code, err)
			}
		}
		return nil
	}
	comparison{
		name: "register, one by one", unit: "login", units: 1, act: login, procs: s.procs(),
		raw: s.bare(sizeOf(b, s.asks, login)), rawProcs: s.rawProcs(), limit: limit{raws: 1.5},
	}.run(b)
}

// events has many log in at a time, and ends when a listener has heard of all of them.
func (s *stage) events(b *testing.B) {
	const callers = 64
	l := s.lives[0]
	var drawn atomic.Int64
	heard, events := int64(0), make(chan *nats.Msg, 1<<16)
	listener := connect(b, s.nats.address, deploy.Backend)
	_, err := listener.ChanSubscribe(subjects.Prefix("").AllEvents(), events)
	require.NoError(b, err)
	require.NoError(b, listener.Flush())
	logins := parallel(callers, func(_, _ int) error {
		route := l.route(name("event", int(drawn.Add(1))))
		t, err := s.client.Target(context.Background(), subjects.SlotOf(route.UID))
		if err != nil {
			return err
		}
		got, err := s.client.Register(context.Background(), t, schema.Login{Route: route, Left: 5 * time.Second})
		if err != nil || got.Code != schema.CodeOK {
			return fmt.Errorf("register %s: %s %w", route.UID, got.Code, err)
		}
		return nil
	})
	act := func(n int) error {
		l.settle() // nothing is under way
		if err := logins(n); err != nil {
			return err
		}
		for late := time.After(10 * time.Second); heard < drawn.Load(); heard++ {
			select {
			case <-events:
			case <-late:
				return fmt.Errorf("of %d events %d are missing after 10 s", drawn.Load(), drawn.Load()-heard)
			}
		}
		return nil
	}
	size := sizeOf(b, s.asks, act)
	comparison{
		name: "logins of 64 callers, each with its event heard", unit: "event", units: 1, act: act, procs: s.procs(),
		raw: parallel(callers, func(_, _ int) error {
			return request1(s.raw, rawSubject(size.answer), make([]byte, size.request))
		}),
		rawProcs: s.rawProcs(),
	}.run(b)
}

// slotted makes n routes of one slot.
func slotted(l *life, slot schema.Slot, n int) []schema.Route {
	var routes []schema.Route
	for i := 0; len(routes) < n; i++ {
		if uid := name("sync", i); subjects.SlotOf(uid) == slot {
			r := l.route(uid)
			r.Order = schema.Order{Fence: 1, N: uint64(i)}
			routes = append(routes, r)
		}
	}
	return routes
}

func (s *stage) sync1000(b *testing.B) {
	const slot, count = 17, 1000
	l := s.lives[1]
	routes := slotted(l, slot, count)
	again := func(n int) error {
		for range n {
			l.settle()
			for i := range routes {
				routes[i].Seq = l.next()
			}
			if err := s.sync(slot, l, routes); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(b, again(1))
	comparison{
		name: "sync of 1,000 routes", unit: "route", units: count, act: again, procs: s.procs(),
		raw: s.bare(sizeOf(b, s.asks, again)), rawProcs: s.rawProcs(), limit: limit{micros: 1.5},
	}.run(b)
}

func (s *stage) touch(b *testing.B, large map[schema.Slot][]schema.Route) {
	const slot = 17
	var touched []schema.Touched
	for _, r := range large[slot] {
		touched = append(touched, schema.Touched{Session: r.Session, Idle: 2 * time.Second})
	}
	t, err := s.client.Target(b.Context(), slot)
	require.NoError(b, err)
	flush := func(n int) error {
		for range n {
			exceptions, err := s.client.Touch(context.Background(), t, s.lives[0].me, touched)
			if err != nil || len(exceptions) > 0 {
				return fmt.Errorf("touch: %d exceptions: %w", len(exceptions), err)
			}
		}
		return nil
	}
	comparison{
		name: fmt.Sprintf("touch, %d sessions a flush", len(touched)), unit: "session", units: len(touched), act: flush, procs: s.procs(),
		raw: s.bare(sizeOf(b, s.asks, flush)), rawProcs: s.rawProcs(), limit: limit{micros: 0.35},
	}.run(b)
}
