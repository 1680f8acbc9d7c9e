package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// topic is a watched user with who watches. Guarded by the hub's mu.
type topic struct {
	client.Watched
	holders  int                   // watchers that have it among their users; without one it goes
	watchers map[*watcher]struct{} // of them, those who are told of changes
	found    chan struct{}         // closed when the first of them has found out, or has tried to
	sub      *nats.Subscription
	open     hearing
	lost     losses
	encoded  [2]schema.EncodedUser // as it is now, by encoding; nil: not needed yet
}

// hearing is where a topic stands with the server.
type hearing uint8

const (
	unheard    hearing = iota // not subscribed to
	dialing                   // somebody is subscribing
	subscribed                // heard
)

// shownLocked gives a user as a presence frame names it.
func (h *hub) shownLocked(t *topic, e schema.Encoding) schema.EncodedUser {
	if t.encoded[e] == nil {
		u := t.Shown()
		if h.off {
			u.Reason = atRest
		}
		t.encoded[e] = e.EncodeUser(u)
	}
	return t.encoded[e]
}

// findOut sees to it that topics are known and listened to. Who is the first to want a topic does
// it, the others wait for that one. It returns when all is done or ctx ends; what is not known then
// is looked up again. While watches rest it does nothing: that is done for all when they go on.
func (h *hub) findOut(ctx context.Context, topics []*topic) {
	var mine []*topic
	h.mu.Lock()
	if h.off {
		h.mu.Unlock()
		return
	}
	for _, t := range topics {
		if t.found == nil {
			t.found = make(chan struct{})
			t.Ask()
			mine = append(mine, t)
		}
	}
	h.mu.Unlock()
	if len(mine) > 0 {
		if err := h.subscribe(ctx, mine); err != nil {
			h.g.log.Warn("watching is not possible now, trying again", "err", err)
		}
		h.look(ctx, uidsOf(mine))
	}
	for _, t := range mine {
		close(t.found)
	}
	for _, t := range topics {
		select {
		case <-t.found:
		case <-ctx.Done():
			return
		}
	}
}

// subscribe makes sure that the events of topics come here, before they are looked up: it waits until
// the server has heard of all that this gateway listens to, also of what nats.go has told it anew after
// a reconnect. Those for which that failed are stale.
func (h *hub) subscribe(ctx context.Context, topics []*topic) error {
	var failed error
	for _, t := range topics {
		if err := h.open(t); err != nil {
			failed = err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, findOutWithin)
	defer cancel()
	if err := h.g.push.FlushWithContext(ctx); err != nil {
		h.doubt(topics)
		failed = errors.Join(failed, err)
	}
	return failed
}

// doubt has topics looked up again: the server may not have heard yet that we listen.
func (h *hub) doubt(topics []*topic) {
	h.mu.Lock()
	for _, t := range topics {
		t.Stale = true
	}
	h.mu.Unlock()
}

// open subscribes to a user that nobody has subscribed to.
func (h *hub) open(t *topic) error {
	h.mu.Lock()
	mine := t.open == unheard && t.holders > 0 && !h.off
	if mine {
		t.open = dialing
	}
	h.mu.Unlock()
	if !mine {
		return nil
	}
	sub, err := h.g.push.ChanSubscribe(h.g.config.Prefix.Event(t.UID), h.events)
	h.mu.Lock()
	t.sub, t.open = sub, subscribed
	if err != nil {
		t.open, t.Stale = unheard, true // the next look-up subscribes
		err = fmt.Errorf("subscribe to user: %w", err)
	}
	unwanted := t.holders == 0 || h.off
	if unwanted {
		t.sub, t.open = nil, unheard
	}
	h.mu.Unlock()
	if unwanted {
		unsubscribe(sub)
	}
	return err
}

func unsubscribe(sub *nats.Subscription) {
	if sub != nil {
		sub.Unsubscribe()
	}
}

func uidsOf(topics []*topic) []schema.UID {
	uids := make([]schema.UID, len(topics))
	for i, t := range topics {
		uids[i] = t.UID
	}
	return uids
}
