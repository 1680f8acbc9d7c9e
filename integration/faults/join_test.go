package faults

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// A third authority joins two that hold a million routes: a third of the slots is handed to it and
// told to it by ten gateways, and nobody who looks up notices.
func TestAuthorityJoins(t *testing.T) {
	const gateways = 10
	l := campaign(t)
	routes := l.times(1_000_000, 100_000)
	s := newDirectory(t, 2)
	crowd := process.StartSelf(t, process.Env{childVariable + "=crowd"}, "crowd", addresses(s.servers), strconv.Itoa(gateways), strconv.Itoa(routes/gateways))
	begun := time.Now()
	until(t, 5*time.Minute, "all routes are told", func() bool { return slices.Contains(crowd.Said(), "ready crowd") })
	until(t, patience, "slots are ready, shares even", s.even)
	s.fleet = bystanders()
	// The share is told in about a second: of fewer look-ups the slowest would stand for a percentile.
	s.probe = startProbe(t, s.backend, s.fleet, probeEvery/2)
	idle := s.yardstick()
	t.Logf("%d routes told in %v, load average %s", routes, time.Since(begun), loadAverage())
	pause(t, time.Second)
	quiet := time.Now()
	pause(t, 5*time.Second)

	joined := time.Now()
	before := s.probe.latencies(quiet, joined)
	third := s.unit(deploy.Authority, "a-3")
	s.authorities = append(s.authorities, third)
	third.start()
	until(t, patience, "slots are ready, shares even", s.even)
	pause(t, time.Second) // the last look-ups come back
	moves := s.owners.since(joined)
	require.NotEmpty(t, moves)
	first, ready := moves[0].at, s.probe.whole(moves)
	meanwhile := s.probe.latencies(first, first.Add(ready))
	unknown := spread(s.probe.longest(joined, time.Now(), every()))
	waits := idle(first, first.Add(ready))
	t.Logf("%d slots moved, the first %v after its start; its share told in %v; look-ups of 256 meanwhile %v, before %v; longest unknown of a slot %v; a request that is no work, meanwhile %v",
		len(moves), first.Sub(joined), ready, meanwhile, before, unknown, waits)
	require.Empty(t, s.probe.tally(joined, time.Now()).falseOffline)
	require.Len(t, moves, schema.Slots/3, "only what must move")
	require.Less(t, ready, 5*time.Second)
	// Twice what a busy machine lets everybody wait: a look-up goes on to the authorities and comes back.
	require.Less(t, meanwhile.at(0.99), 50*time.Millisecond+2*waits.at(0.99))
}

// yardstick sends a request that is no work for anybody, to this program itself, as often as the probe;
// what it gives tells how long those took that were sent in a span of time.
func (s *stage) yardstick() func(from, to time.Time) spread {
	s.t.Helper()
	to, from := connect(s.t, s.servers, deploy.Operator, "faults/echo"), connect(s.t, s.servers, deploy.Operator, "faults/yardstick")
	subject := to.NewInbox()
	_, err := to.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(nil) }) // one that is lost counts as slow
	require.NoError(s.t, err)
	require.NoError(s.t, to.Flush())
	p := &probe{every: probeEvery / 2}
	p.run(s.t, func(ctx context.Context) {
		a := &answer{sent: time.Now()}
		asking, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, _ = from.RequestWithContext(asking, subject, nil)
		a.back = time.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answers = append(p.answers, a)
	})
	return p.latencies
}

// newDirectory starts authorities and delivery. Routes are touched as seldom as at the defaults; the
// lease is shorter, as the shares are evened after a sixth of it.
func newDirectory(t *testing.T, authorities int) *stage {
	t.Helper()
	s := &stage{t: t, scene: scene{pass: pass{"a short lease", 6 * time.Second, 30 * time.Second, 90 * time.Second}}}
	s.servers = newServers(t, 1, true)
	s.setup()
	for i := range authorities {
		s.authorities = append(s.authorities, s.unit(deploy.Authority, fmt.Sprintf("a-%d", i+1)))
	}
	s.delivery = s.unit(deploy.Delivery, "d-1")
	for _, u := range s.units() {
		u.start()
	}
	s.backend = connect(t, s.servers, deploy.Backend, "faults/backend")
	s.owners = watchOwners(t, s.servers)
	for _, u := range s.units() {
		u.proc.Line(u.sign())
	}
	return s
}

// bystanders are users of a crowd, one a slot: they are connected all the time.
func bystanders() *fleet {
	f := &fleet{users: make([]*user, schema.Slots)}
	for i, found := 0, 0; found < schema.Slots; i++ {
		uid := crowdName(0, i)
		if s := subjects.SlotOf(uid); f.users[s] == nil {
			f.users[s] = &user{uid: uid, lives: []life{{from: time.Now().Add(-time.Second)}}}
			found++
		}
	}
	return f
}

// latencies gives how long look-ups took.
func (p *probe) latencies(from, to time.Time) (list spread) {
	for _, a := range p.between(from, to) {
		list = append(list, a.back.Sub(a.sent))
	}
	return list
}

// whole gives the time from the first of some moves until each slot that moved was answered for by
// an owner that knows all of it.
func (p *probe) whole(moves []moved) time.Duration {
	last := moves[0].at
	for _, m := range moves {
		known := time.Now()
		for _, a := range p.between(m.at, time.Now()) {
			if seen := a.states[m.to.Slot]; seen.state != schema.Unknown && !seen.partial && a.back.Before(known) {
				known = a.back
			}
		}
		if known.After(last) {
			last = known
		}
	}
	return last.Sub(moves[0].at)
}
