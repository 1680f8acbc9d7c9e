package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// WithCache has Lookup and Push answer from memory for users who were looked up in the last second,
// at most so many, 0 for none, as long as no event, refusal or change of owner speaks against it. A
// new device is missed no longer than its event takes, and never longer than a second; a device
// that is gone is told of for as long, but a push that its gateway refuses goes to where a new
// look-up finds the user, within the same call. It costs one subscription to the events of all
// users. Calls with AwaitFresh, Kick, Explain and Watch always ask.
func WithCache(users int) Option { return func(s *settings) { s.cache = max(0, users) } }

// cacheBacklog bounds the events that wait for the cache; one more is lost, and everything kept with
// it.
const cacheBacklog = 16384

// cached is a cache for callers side by side, kept true by events.
type cached struct {
	// static
	nc     *nats.Conn
	prefix subjects.Prefix
	owners owners
	meter  *metrics
	log    *slog.Logger
	events chan *nats.Msg

	mu    sync.Mutex
	c     *cache
	sub   *nats.Subscription // nil until the server has it: nothing counts before
	heard losses             // by the last look
}

// losses count how often events may have gone by.
type losses struct {
	reconnects uint64
	dropped    int
}

// newCached makes one for at most so many users; it works while run does.
func newCached(d *Delivery, o owners, most int) *cached {
	return &cached{nc: d.nc, prefix: d.s.prefix, owners: o, meter: d.meter, log: d.s.log,
		events: make(chan *nats.Msg, cacheBacklog), c: newCache(most, d.meter.cacheDropped)}
}

// run hears of events until ctx ends.
func (k *cached) run(ctx context.Context) {
	sub, err := k.listen(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.log.Error("look-ups are not cached, since no events are heard", "err", err)
		}
		return
	}
	defer sub.Unsubscribe()
	k.mu.Lock()
	k.sub = sub
	k.mu.Unlock()
	tick := time.NewTicker(cacheLife)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-k.events:
			k.event(m)
		case now := <-tick.C:
			k.mu.Lock()
			k.c.sweep(now)
			k.mu.Unlock()
		}
	}
}

// listen subscribes, and returns when the server has heard of it.
func (k *cached) listen(ctx context.Context) (*nats.Subscription, error) {
	name := k.prefix.AllEvents()
	sub, err := k.nc.ChanSubscribe(name, k.events)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", name, err)
	}
	for {
		within, cancel := context.WithTimeout(ctx, subscribeWait)
		err := k.nc.FlushWithContext(within)
		cancel()
		if err == nil {
			return sub, nil
		}
		if ctx.Err() != nil || k.nc.IsClosed() {
			sub.Unsubscribe()
			return nil, err
		}
		if err := lease.Wait(ctx, freshLast); err != nil {
			sub.Unsubscribe()
			return nil, err
		}
	}
}

// event drops what an event speaks against. What cannot be read may speak against everything.
func (k *cached) event(m *nats.Msg) {
	uid, ofUser := k.prefix.ParseEvent(m.Subject)
	var e schema.Event
	ofSlot := !ofUser && json.Unmarshal(m.Data, &e) == nil && e.Type == schema.EventRebuilt && m.Subject == k.prefix.SlotEvent(e.Slot)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ofUser:
		k.c.forget(uid, dropEvent)
	case ofSlot:
		k.c.forgetSlot(e.Slot)
	default:
		k.c.forgetAll()
	}
}

// lost counts what may have gone by so far, and reports whether events come in at the moment.
func (k *cached) lost() (l losses, hears bool) {
	k.mu.Lock()
	sub := k.sub
	k.mu.Unlock()
	if sub == nil {
		return l, false
	}
	l.reconnects = k.nc.Stats().Reconnects
	dropped, err := sub.Dropped()
	l.dropped = dropped
	return l, err == nil && k.nc.IsConnected()
}

// noteLocked drops everything where events may have been lost since the last look.
func (k *cached) noteLocked(l losses) {
	if l.reconnects > k.heard.reconnects || l.dropped > k.heard.dropped {
		k.heard = losses{max(l.reconnects, k.heard.reconnects), max(l.dropped, k.heard.dropped)}
		k.c.forgetAll()
	}
}

// forget drops a user.
func (k *cached) forget(why dropCause, uids ...schema.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uid := range uids {
		k.c.forget(uid, why)
	}
}

// size counts what is kept.
func (k *cached) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.c.entries)
}
