package client

import (
	"context"
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Found is what is known of one uid.
type Found struct {
	UID     schema.UID
	State   schema.UserState
	Partial bool   // answered while the slot was rebuilding: there may be more routes
	Suspect bool   // by an authority that has no proof of its lease at the moment
	Why     string // where the state is unknown: WhyRebuilding, WhyUnowned or WhyUnreachable
	Stamp   schema.Stamp
	Target  schema.Target // who answered
	// Routes shares memory with other answers of the same moment: clone what is kept for long.
	Routes []schema.Route
}

// Why the state of a uid is unknown.
const (
	WhyRebuilding  = "rebuilding"  // its authority is new and not all gateways have told it yet
	WhyUnowned     = "unowned"     // no living authority is known
	WhyUnreachable = "unreachable" // its authority gave no valid answer in time
)

// rounds bounds how often the owners of what was answered by a wrong one are looked up again.
const rounds = 4

// Lookup tells where the devices of users are. Answers align with uids, duplicates included; none
// of them spoils another. Each authority is asked once, for at most 500 ms, together with what
// others ask it at the moment; what has moved is asked again at its new owner, alone. It always
// answers, at the latest when ctx ends: with the state unknown where it could not know.
func (c *Client) Lookup(ctx context.Context, uids []schema.UID) []Found {
	c.counts.lookups.Add(1)
	c.counts.uids.Add(uint64(len(uids)))
	within, cancel := context.WithTimeout(ctx, tryShort)
	err := c.started(within)
	if cancel(); err != nil {
		return unreachable(uids)
	}
	r := newRound(c, uids)
	defer r.free()
	for i := range uids {
		r.add(int32(i))
	}
	for n := 1; ; n++ {
		if !r.ask(ctx) {
			return r.abandon()
		}
		stale := r.stale(n == rounds)
		if len(stale) == 0 {
			return r.found
		}
		c.counts.again.Add(uint64(len(stale)))
		r.again(ctx, stale)
	}
}

func unreachable(uids []schema.UID) []Found {
	found := make([]Found, len(uids))
	for i, uid := range uids {
		found[i] = Found{UID: uid, State: schema.Unknown, Why: WhyUnreachable}
	}
	return found
}

// round is one look-up on its way: which owner was found for each slot, and what each is asked.
type round struct {
	c     *Client
	uids  []schema.UID
	found []Found // aligned with uids; a lane writes here until its ask is done
	asks  []*ask
	done  chan *ask
	count uint32 // of rounds that this memory has served
	slots [schema.Slots]slotRound
}

// slotRound is one slot in a round: its owner is looked up once, so that all uids of a slot go to
// the same.
type slotRound struct {
	count  uint32 // of the round that this was found in
	owned  bool
	target schema.Target
	ask    *ask // to the slot's owner, with room
}

// ask is what one look-up asks one authority process. It never exceeds a message.
type ask struct {
	authority schema.Process
	items     []item
	found     []Found     // of the whole look-up; a lane writes to it
	done      chan<- *ask // has room for it
	answered  bool        // written by the round, once it has come back
}

// item is one uid of an ask.
type item struct {
	uid   schema.UID
	fence schema.Revision
	at    int32 // in found
	slot  schema.Slot
}

// maxAsk bounds the uids of an ask.
const maxAsk = 1024

var roundPool = sync.Pool{New: func() any { return new(round) }}

func newRound(c *Client, uids []schema.UID) *round {
	r := roundPool.Get().(*round)
	r.c, r.uids, r.found = c, uids, make([]Found, len(uids))
	r.count++
	return r
}

// free gives a round back. What a lane may still write to is not kept.
func (r *round) free() {
	clear(r.asks)
	r.c, r.uids, r.found, r.done, r.asks = nil, nil, nil, nil, r.asks[:0]
	roundPool.Put(r)
}

// add asks for the uid at a place.
func (r *round) add(at int32) {
	uid := r.uids[at]
	if uid.Check() != nil { // it would spoil the request of others
		r.found[at] = Found{UID: uid, State: schema.Unknown, Why: WhyUnreachable}
		return
	}
	slot := subjects.SlotOf(uid)
	s := &r.slots[slot]
	if s.count != r.count {
		s.count = r.count
		s.target, s.owned = r.c.view.Target(slot)
		s.ask = nil
		if s.owned {
			r.c.learn(s.target)
		}
	}
	if !s.owned {
		r.found[at] = Found{UID: uid, State: schema.Unknown, Why: WhyUnowned}
		return
	}
	if s.ask == nil || len(s.ask.items) == maxAsk {
		s.ask = r.open(s.target.Authority)
	}
	s.ask.items = append(s.ask.items, item{uid, s.target.Fence, at, slot})
}

// open gives an ask to a process that has room.
func (r *round) open(p schema.Process) *ask {
	for _, a := range r.asks {
		if a.authority == p && len(a.items) < maxAsk {
			return a
		}
	}
	a := &ask{authority: p, found: r.found}
	if len(r.uids) > 1 {
		a.items = make([]item, 0, min(len(r.uids), maxAsk))
	}
	r.asks = append(r.asks, a)
	return a
}

// ask sends the asks and waits for all of them; false when ctx ended first.
func (r *round) ask(ctx context.Context) bool {
	r.done = make(chan *ask, len(r.asks))
	for i, a := range r.asks {
		a.done = r.done
		if err := r.send(ctx, a, i == len(r.asks)-1); err != nil {
			a.fail(WhyUnreachable)
		}
	}
	for range r.asks {
		a := r.next(ctx)
		if a == nil {
			return false
		}
		a.answered = true
	}
	return true
}

// next gives an ask that has come back; nil when ctx ended before. One that is back already counts, however
// late it is: sending the last one may have taken the caller's whole time.
func (r *round) next(ctx context.Context) *ask {
	select {
	case a := <-r.done:
		return a
	case <-ctx.Done():
	}
	select {
	case a := <-r.done:
		return a
	default:
		return nil
	}
}

// send brings an ask into its lane. The last one need not leave the caller free.
func (r *round) send(ctx context.Context, a *ask, last bool) error {
	if last {
		return r.c.lookups.Do(ctx, a.authority, a)
	}
	return r.c.lookups.Add(a.authority, a)
}

// stale gives the places that were answered by a wrong owner; the last time they are unreachable.
func (r *round) stale(last bool) []int32 {
	var stale []int32
	for _, a := range r.asks {
		for _, it := range a.items {
			f := &r.found[it.at]
			if f.Why != whyStale {
				continue
			}
			if last {
				f.Why = WhyUnreachable
				continue
			}
			stale = append(stale, it.at)
		}
	}
	return stale
}

// again prepares the next round for places whose owner has changed; the others are unreachable.
func (r *round) again(ctx context.Context, stale []int32) {
	before := map[schema.Slot]schema.Target{}
	var reads []<-chan struct{}
	for _, at := range stale {
		slot := subjects.SlotOf(r.uids[at])
		if _, ok := before[slot]; !ok {
			before[slot] = r.slots[slot].target
			reads = append(reads, r.c.reread(slot))
		}
	}
	for _, read := range reads {
		r.c.await(ctx, read)
	}
	r.asks, r.count = r.asks[:0], r.count+1
	for _, at := range stale {
		slot := subjects.SlotOf(r.uids[at])
		if t, ok := r.c.view.Target(slot); ok && t.Differs(before[slot]) == "" {
			r.found[at].Why = WhyUnreachable
			continue
		}
		r.add(at)
	}
}

// abandon answers while lanes may still write to found: it copies what is done.
func (r *round) abandon() []Found {
	found := unreachable(r.uids)
	pending := map[int32]bool{}
	for _, a := range r.asks {
		if a.answered {
			continue
		}
		for _, it := range a.items {
			pending[it.at] = true
		}
	}
	for i := range found {
		if !pending[int32(i)] && r.found[i].Why != whyStale {
			found[i] = r.found[i]
		}
	}
	return found
}
