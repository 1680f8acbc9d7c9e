package gateway

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// watcher is a session with the users that it watches. Guarded by the hub's mu.
type watcher struct {
	s       *session
	users   map[*topic]telling
	changed []*topic // what the next frame names, each once, in the order of their changes
	queued  bool     // in the hub's waiting
}

// telling is where a watcher stands with a user.
type telling uint8

const (
	promised telling = iota // counted; told of once the user has been found out about
	told                    // knows the latest
	toTell                  // among the changed
)

// reserve makes users part of what a session watches; nil, and nothing is done, where they would be
// too many.
func (h *hub) reserve(s *session, uids []schema.UID, most int) []*topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.clients[s]
	if w == nil {
		w = &watcher{s: s, users: make(map[*topic]telling)}
	}
	total := len(w.users)
	for _, u := range uids {
		if t := h.findLocked(u); t == nil || !w.has(t) {
			total++
		}
	}
	if total > most {
		return nil
	}
	h.clients[s] = w
	topics := make([]*topic, len(uids))
	for i, u := range uids {
		topics[i] = h.topicLocked(u)
		if !w.has(topics[i]) {
			w.users[topics[i]] = promised
			topics[i].holders++
			h.watching++
		}
	}
	return topics
}

func (w *watcher) has(t *topic) bool {
	_, ok := w.users[t]
	return ok
}

func (h *hub) topicLocked(u schema.UID) *topic {
	n := subjects.SlotOf(u)
	t := h.users[n][u]
	if t == nil {
		t = &topic{Watched: client.NewWatched(u), watchers: make(map[*watcher]struct{})}
		if h.users[n] == nil {
			h.users[n] = make(map[schema.UID]*topic)
		}
		h.users[n][u] = t
	}
	return t
}

// end makes a session watch users no longer.
func (h *hub) end(s *session, uids []schema.UID) {
	var idle []*nats.Subscription
	h.mu.Lock()
	if w := h.clients[s]; w != nil {
		for _, u := range uids {
			if t := h.findLocked(u); t != nil && w.has(t) {
				idle = h.dropLocked(w, t, idle)
			}
		}
		w.changed = slices.DeleteFunc(w.changed, func(t *topic) bool { return !w.has(t) })
		if len(w.users) == 0 {
			delete(h.clients, s)
		}
	}
	h.mu.Unlock()
	for _, sub := range idle {
		unsubscribe(sub)
	}
}

// leave ends all that a session watches.
func (h *hub) leave(s *session) {
	var idle []*nats.Subscription
	h.mu.Lock()
	if w := h.clients[s]; w != nil {
		for t := range w.users {
			idle = h.dropLocked(w, t, idle)
		}
		w.changed = nil
		delete(h.clients, s)
	}
	h.mu.Unlock()
	for _, sub := range idle {
		unsubscribe(sub)
	}
}

// dropLocked takes a user from a watcher, and gives the subscription that nobody needs any more
// beside the others. Who is subscribing just now finds that out by itself.
func (h *hub) dropLocked(w *watcher, t *topic, idle []*nats.Subscription) []*nats.Subscription {
	delete(w.users, t)
	delete(t.watchers, w)
	h.watching--
	if t.holders--; t.holders > 0 {
		return idle
	}
	delete(h.users[t.Slot], t.UID)
	if t.sub == nil {
		return idle
	}
	return append(idle, t.sub)
}
