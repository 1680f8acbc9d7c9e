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

// probeEvery is the time between two look-ups.
const probeEvery = 20 * time.Millisecond

// probe looks up one user of each slot, over and over, and keeps every answer.
type probe struct {
	fleet *fleet
	uids  []schema.UID

	mu      sync.Mutex
	answers []*answer
}

// answer is one look-up of a user a slot.
type answer struct {
	sent, back time.Time
	failed     string // no answer at all; states are then unknown
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
func startProbe(t *testing.T, nc *nats.Conn, f *fleet) *probe {
	t.Helper()
	p := &probe{fleet: f, uids: f.uids()[:schema.Slots]}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		tick := time.NewTicker(probeEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				running.Go(func() { p.ask(ctx, nc) })
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

func (p *probe) ask(ctx context.Context, nc *nats.Conn) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	a := &answer{sent: time.Now()}
	reply, err := call[brief](ctx, nc, "lookup", schema.LookupCall{UIDs: p.uids})
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil || err == nil {
		p.answers = append(p.answers, a)
	}
}

// between gives the answers to look-ups that were sent in a span of time, in that order.
func (p *probe) between(from, to time.Time) (list []*answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.answers {
		if !a.sent.Before(from) && !a.sent.After(to) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *answer) int { return a.sent.Compare(b.sent) })
	return list
}

// windows gives, for each slot, the time from a fault to the first answer that is not unknown: of
// look-ups sent after the fault. Slots without such an answer are left out.
func (p *probe) windows(fault, to time.Time, slots []schema.Slot) (list []time.Duration) {
	first := map[schema.Slot]time.Time{}
	for _, a := range p.between(fault, to) {
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

// calm reports whether a whole second of look-ups found everybody, and nobody suspect.
func (p *probe) calm() bool {
	now := time.Now()
	y := p.tally(now.Add(-1200*time.Millisecond), now.Add(-200*time.Millisecond))
	return y.lookups > 10 && y.failed == 0 && y.unknown == 0 && y.suspect == 0
}

// every gives all slots.
func every() (list []schema.Slot) {
	for s := range schema.Slot(schema.Slots) {
		list = append(list, s)
	}
	return list
}
