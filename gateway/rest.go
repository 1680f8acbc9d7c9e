package gateway

import (
	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// atRest is the reason that a watched user is shown with while watches rest: unknown.
const atRest = string(schema.FrameWatchOff)

// heed has all watches rest, or go on, as the mesh's settings say. Only run calls it.
func (h *hub) heed() {
	off := h.g.view.Config().WatchOff
	if h.turn(off) {
		h.g.log.Info("the mesh's settings were followed: watches of clients", "rest", off)
	}
}

// turn has all watches rest or go on; false where they do already. Who watches whom stays: at rest they
// cost memory, no events and no look-ups, and every watcher is told that its users are unknown, and why.
// When they go on all are looked up, and told: no client has to ask anew.
func (h *hub) turn(off bool) (turned bool) {
	var idle []*nats.Subscription
	h.mu.Lock()
	if turned = h.off != off; turned {
		h.off = off
		for n := range h.users {
			for _, t := range h.users[n] {
				idle = h.resetLocked(t, idle)
			}
		}
	}
	h.mu.Unlock()
	for _, sub := range idle {
		unsubscribe(sub)
	}
	if turned {
		signal(h.due)
		signal(h.again)
	}
	return turned
}

// resetLocked forgets what is known of a user and has its watchers told. It gives the subscription beside
// the others; who is subscribing just now finds out by itself whether that is wanted.
func (h *hub) resetLocked(t *topic, idle []*nats.Subscription) []*nats.Subscription {
	t.Forget()
	t.encoded = [2]schema.EncodedUser{}
	for w := range t.watchers {
		h.dueLocked(w, t)
	}
	if t.open == subscribed {
		idle = append(idle, t.sub)
		t.sub, t.open, t.lost = nil, unheard, 0
	}
	return idle
}

// resting reports whether all watches rest.
func (h *hub) resting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.off
}
