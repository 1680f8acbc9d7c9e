package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// topic is a watched user with who watches. It is subscribed to by the first of them; the others
// wait for ready.
type topic struct {
	client.Watched
	watchers map[*session]struct{}
	ready    chan struct{} // closed when the first of them has tried to subscribe
	open     bool          // subscribed
	sub      *nats.Subscription
}

// slotTopic is the subscription to what befalls a whole slot.
type slotTopic struct {
	users int
	sub   *nats.Subscription
}

// subscribe makes sure that the events of uids come here, before they are looked up.
func (h *hub) subscribe(ctx context.Context, uids []schema.UID) error {
	ctx, cancel := context.WithTimeout(ctx, subscribeWait)
	defer cancel()
	var failed error
	fresh := false
	for _, u := range uids {
		mine, err := h.subscribeTo(ctx, u)
		fresh = fresh || mine
		failed = errors.Join(failed, err)
	}
	if fresh {
		failed = errors.Join(failed, h.g.push.FlushWithContext(ctx))
	}
	return failed
}

// subscribeTo subscribes to a user, or waits for who does; mine tells which.
func (h *hub) subscribeTo(ctx context.Context, u schema.UID) (mine bool, err error) {
	h.mu.Lock()
	t := h.users[u]
	if t == nil {
		h.mu.Unlock()
		return false, nil // unwatched meanwhile
	}
	if mine = t.ready == nil; mine {
		t.ready = make(chan struct{})
	}
	ready := t.ready
	h.mu.Unlock()
	if !mine {
		select {
		case <-ready:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	sub, err := h.open(t)
	h.mu.Lock()
	t.sub, t.open = sub, err == nil
	t.Stale = t.Stale || err != nil
	if err != nil {
		t.ready = nil // the next try subscribes
	}
	unwatched := h.users[u] != t
	h.mu.Unlock()
	close(ready)
	if unwatched && err == nil {
		h.shut(sub, t.Slot)
	}
	return true, err
}

// open subscribes to a user and to its slot.
func (h *hub) open(t *topic) (*nats.Subscription, error) {
	sub, err := h.g.push.ChanSubscribe(h.g.config.Prefix.Event(t.UID), h.events)
	if err != nil {
		return nil, fmt.Errorf("subscribe to user: %w", err)
	}
	h.mu.Lock()
	st := h.slots[t.Slot]
	if st == nil {
		st = new(slotTopic)
		h.slots[t.Slot] = st
	}
	st.users++
	first := st.users == 1
	h.mu.Unlock()
	if !first {
		return sub, nil
	}
	slotSub, err := h.g.push.ChanSubscribe(h.g.config.Prefix.SlotEvent(t.Slot), h.events)
	h.mu.Lock()
	st.sub = slotSub
	h.mu.Unlock()
	if err != nil {
		h.shut(sub, t.Slot)
		return nil, fmt.Errorf("subscribe to slot: %w", err)
	}
	return sub, nil
}

// shut ends the subscription to a user, and that to its slot where it was the last.
func (h *hub) shut(sub *nats.Subscription, n schema.Slot) {
	unsubscribe(sub)
	h.mu.Lock()
	st := h.slots[n]
	var slotSub *nats.Subscription
	if st != nil {
		if st.users--; st.users == 0 {
			slotSub = st.sub
			delete(h.slots, n)
		}
	}
	h.mu.Unlock()
	unsubscribe(slotSub)
}

func unsubscribe(sub *nats.Subscription) {
	if sub != nil {
		sub.Unsubscribe()
	}
}

// end makes a session watch uids no longer.
func (h *hub) end(s *session, uids []schema.UID) {
	var idle []*topic
	h.mu.Lock()
	for _, u := range uids {
		delete(h.clients[s], u)
		t := h.users[u]
		if t == nil {
			continue
		}
		if delete(t.watchers, s); len(t.watchers) > 0 {
			continue
		}
		delete(h.users, u)
		if t.open { // else who is subscribing finds that nobody watches any more
			idle = append(idle, t)
		}
	}
	if len(h.clients[s]) == 0 {
		delete(h.clients, s)
	}
	h.mu.Unlock()
	for _, t := range idle {
		h.shut(t.sub, t.Slot)
	}
}

// leave ends all that a session watches.
func (h *hub) leave(s *session) {
	h.mu.Lock()
	uids := slices.Collect(maps.Keys(h.clients[s]))
	h.mu.Unlock()
	if len(uids) > 0 {
		h.end(s, uids)
	}
}
