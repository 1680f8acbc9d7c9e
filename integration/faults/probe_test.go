package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// probeEvery is the time between two look-ups, where a row needs no more of them.
const probeEvery = 20 * time.Millisecond

// probe looks up one user of each slot, over and over, and keeps every answer.
type probe struct {
	fleet *fleet
	every time.Duration
	uids  []schema.UID

	mu      sync.Mutex
	answers []*answer
}

// answer is one look-up of a user a slot.
type answer struct {
	sent, back time.Time // back is zero until the answer is here, or none has come in 3 s
	failed     string    // no answer at all; states are then unknown
	states     [schema.Slots]seen
}

// seen is what a look-up says of one user.
type seen struct {
	state            schema.UserState
	partial, suspect bool
}

// brief is what is read of an answer: decoding all of it would cost a core.
type brief struct {
	Results []struct {
		State   schema.UserState `json:"state"`
		Partial bool             `json:"partial"`
		Suspect bool             `json:"suspect"`
	} `json:"results"`
}

// startProbe looks up until the test ends.
func startProbe(t *testing.T, nc *nats.Conn, f *fleet, every time.Duration) *probe {
	t.Helper()
	p := &probe{fleet: f, every: every, uids: f.uids()[:schema.Slots]}
	p.run(t, func(ctx context.Context) { p.ask(ctx, nc) })
	return p
}

// run asks again and again, however long that takes, until the test ends.
func (p *probe) run(t *testing.T, ask func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				running.Go(func() { ask(ctx) })
			case <-ctx.Done():
				return
			}
		}
	})
}

func (p *probe) ask(ctx context.Context, nc *nats.Conn) {
	a := &answer{sent: time.Now()}
	p.mu.Lock()
	p.answers = append(p.answers, a)
	p.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	reply, err := call[brief](asking, nc, "lookup", schema.LookupCall{UIDs: p.uids})
	if ctx.Err() != nil {
		return // the test is over
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a.back = time.Now()
	if err == nil && len(reply.Results) != len(p.uids) {
		err = fmt.Errorf("%d results", len(reply.Results))
	}
	if err != nil {
		a.failed = err.Error()
	}
	for i := range a.states {
		a.states[i].state = schema.Unknown
		if err == nil {
			r := reply.Results[i]
			a.states[i] = seen{r.State, r.Partial, r.Suspect}
		}
	}
}

// between gives the answers to look-ups that were sent in a span of time, in that order.
func (p *probe) between(from, to time.Time) []*answer {
	list, _ := p.sent(from, to)
	return list
}

// sent gives the answers to look-ups that were sent in a span of time, in that order, and how many
// have none yet.
func (p *probe) sent(from, to time.Time) (list []*answer, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.answers {
		switch {
		case a.sent.Before(from) || a.sent.After(to):
		case a.back.IsZero():
			open++
		default:
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *answer) int { return a.sent.Compare(b.sent) })
	return list, open
}

// windows gives, for each slot, the time from a fault to the first answer that is not unknown: of
// look-ups sent when it was done, as one sent a moment before may still have been answered by who is
// gone. Slots without such an answer are left out.
func (p *probe) windows(fault, done, to time.Time, slots []schema.Slot) (list []time.Duration) {
	first := map[schema.Slot]time.Time{}
	for _, a := range p.between(done, to) {
		for _, s := range slots {
			if at, ok := first[s]; a.states[s].state != schema.Unknown && (!ok || a.back.Before(at)) {
				first[s] = a.back
			}
		}
	}
	for _, at := range first {
		list = append(list, at.Sub(fault))
	}
	return list
}

// longest gives, for each slot, the longest time that look-ups found it unknown: from the sending of
// the first to the first answer, of one sent later, that is not. 0 where none did.
func (p *probe) longest(from, to time.Time, slots []schema.Slot) (list []time.Duration) {
	answers := p.between(from, to)
	for _, s := range slots {
		most, since := time.Duration(0), time.Time{}
		for _, a := range answers {
			switch {
			case a.states[s].state == schema.Unknown && since.IsZero():
				since = a.sent
			case a.states[s].state != schema.Unknown && !since.IsZero():
				most, since = max(most, a.back.Sub(since)), time.Time{}
			}
		}
		if !since.IsZero() {
			most = max(most, to.Sub(since))
		}
		list = append(list, most)
	}
	return list
}

// tally counts what look-ups said in a span of time.
type tally struct {
	lookups, failed, unknown, suspect int
	falseOffline                      []string // said to be offline, and connected all the while
}

func (y tally) String() string {
	return fmt.Sprintf("look-ups %d (no answer %d), of their users unknown %d, suspect %d; of a connected user offline %d",
		y.lookups, y.failed, y.unknown, y.suspect, len(y.falseOffline))
}

// tally counts what was said of the users of some gateways, or of all.
func (p *probe) tally(from, to time.Time, of ...*unit) (y tally) {
	for _, a := range p.between(from, to) {
		y.lookups++
		if a.failed != "" {
			y.failed++
		}
		for s, seen := range a.states {
			u := p.fleet.users[s]
			if len(of) > 0 && !slices.ContainsFunc(of, func(g *unit) bool { return schema.NodeID(g.node) == u.node }) {
				continue
			}
			switch {
			case seen.state == schema.Unknown:
				y.unknown++
			case seen.state == schema.Offline && u.connectedThrough(a.sent, a.back):
				y.falseOffline = append(y.falseOffline, fmt.Sprintf("%s (slot %d) at %v", u.uid, s, a.sent.Sub(from)))
			}
			if seen.suspect {
				y.suspect++
			}
		}
	}
	return y
}

// calm reports whether a whole second of look-ups, all sent after something, found everybody, and
// nobody suspect.
func (p *probe) calm(after time.Time) bool {
	y, found := p.found(after, time.Second)
	return found && y.suspect == 0
}

// found counts what the last look-ups said, those of some time, and reports whether all of them were
// sent after a moment, and found everybody. What was sent before a fault, or waits for its answer, says
// nothing of what came of the fault.
func (p *probe) found(after time.Time, span time.Duration) (tally, bool) {
	to := time.Now().Add(-200 * time.Millisecond) // most of the later ones have no answer yet
	from := to.Add(-span)
	_, open := p.sent(from, to)
	y := p.tally(from, to)
	return y, from.After(after) && open == 0 && y.lookups > int(span/p.every/5) && y.failed == 0 && y.unknown == 0
}

// every gives all slots.
func every() (list []schema.Slot) {
	for s := range schema.Slot(schema.Slots) {
		list = append(list, s)
	}
	return list
}
