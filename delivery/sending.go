package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// sending is one push under way. It runs in its caller's goroutine; what it waits for comes in, in
// any order, by arrive, so that no gateway holds up what is to be done about another's answer:
//
//	batch answered   results noted. Sessions still being set up go out again, 10 to 320 ms later;
//	                 users whom the cache has misled are looked up, and their new routes go out
//	batch due again  the sessions still being set up
//	users found      what was not sent to before
type sending struct {
	// static
	d       *Delivery
	ctx     context.Context // the caller's
	m       Message
	ackWait time.Duration
	filter  filter

	// owned by the caller's goroutine
	p        *plan
	open     int // arrivals that are awaited
	answered []*parcel
	timers   []*time.Timer
	lookups  sync.WaitGroup

	mu    sync.Mutex
	come  []arrival // not yet taken; as many as are open, at most
	wakes chan struct{}
}

// arrival is one of the three things that a sending waits for.
type arrival struct {
	answer *parcel
	again  []int32 // places
	try    int     // of again
	found  []Found
}

// carryOut sends the message and waits for what becomes of it, acknowledgements included.
func (d *Delivery) carryOut(ctx context.Context, m Message, c *call, p *plan) {
	s := &sending{d: d, ctx: ctx, m: m, ackWait: heardBy(ctx, c.ackWait), filter: c.filter, p: p, wakes: make(chan struct{}, 1)}
	s.send(p.all(), 0)
	s.follow()
	awaitAcks(ctx, p, s.answered)
}

// follow takes what arrives until nothing is open or the caller's context ends. What has no answer
// by then stays as it was; one that has come counts, and nothing is done about it any more.
func (s *sending) follow() {
	defer func() {
		for _, t := range s.timers {
			t.Stop()
		}
		s.lookups.Wait() // they end with the context
	}()
	for s.open > 0 {
		select {
		case <-s.wakes:
		case <-s.ctx.Done():
			for _, a := range s.taken() {
				if a.answer != nil {
					s.keep(a.answer)
				}
			}
			return
		}
		for _, a := range s.taken() {
			s.open--
			s.take(a)
		}
	}
}

func (s *sending) arrive(a arrival) {
	s.mu.Lock()
	s.come = append(s.come, a)
	s.mu.Unlock()
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

func (s *sending) taken() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	come := s.come
	s.come = nil
	return come
}

func (s *sending) take(a arrival) {
	switch {
	case a.answer != nil:
		s.note(a.answer)
	case a.found != nil:
		s.send(s.p.renew(a.found, s.filter), 0)
	default:
		s.d.meter.retried(len(a.again))
		s.send(a.again, a.try)
	}
}

// keep takes the results of a parcel.
func (s *sending) keep(x *parcel) {
	s.p.settle(x.at, x.results)
	s.answered = append(s.answered, x)
}

// note does so, and what they ask for.
func (s *sending) note(x *parcel) {
	s.keep(x)
	if again := s.p.pending(x.at); len(again) > 0 && x.try < len(retryAfter) {
		s.open++
		next := arrival{again: again, try: x.try + 1}
		s.timers = append(s.timers, time.AfterFunc(retryAfter[x.try], func() { s.arrive(next) }))
	}
	s.lookAnew(s.p.refused(x.at))
}

// lookAnew has what a gateway refused asked for anew where only the cache told of it.
func (s *sending) lookAnew(refused []int32) {
	cache := s.d.mesh.cache
	if cache == nil || len(refused) == 0 {
		return
	}
	cache.forget(dropRefused, s.p.usersAt(refused)...)
	misled := s.p.misled(refused)
	if len(misled) == 0 {
		return
	}
	s.open++
	s.lookups.Go(func() {
		found, err := s.d.lookup(s.ctx, misled, 0)
		if err != nil {
			found = nobodyKnows(misled)
		}
		s.arrive(arrival{found: found})
	})
}

// send brings the message to the routes at the given places: gateways side by side, the batches of
// one gateway in order.
func (s *sending) send(at []int32, try int) {
	batches := s.p.batches(at, s.m.frameSize())
	alone := len(batches) == 1 && s.open == 0 // nothing else is to be done meanwhile
	for _, b := range batches {
		x := &parcel{ctx: s.ctx, at: b.at, size: b.size, try: try, frame: schema.PushFrame{
			ID: s.m.ID, From: s.m.From, Payload: s.m.Payload, Ack: s.m.Ack, AckWait: s.ackWait, Recipients: s.p.recipients(b),
		}}
		x.done = func() { s.arrive(arrival{answer: x}) }
		if err := s.hand(b.to, x, alone); err != nil {
			s.d.meter.notSent(lanePush, err)
			s.d.s.log.Debug("push not sent", "gateway", b.to, "recipients", len(b.at), "err", err)
			s.p.settle(b.at, make([]schema.PushResult, len(b.at))) // unknown
			continue
		}
		s.open++
	}
}

// hand brings a parcel into its gateway's lane. One that goes alone need not leave the caller free.
func (s *sending) hand(to schema.Process, x *parcel, alone bool) error {
	if alone {
		return s.d.mesh.pushes.Do(s.ctx, to, x)
	}
	return s.d.mesh.pushes.Add(to, x)
}
