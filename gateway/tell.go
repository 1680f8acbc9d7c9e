package gateway

import (
	"context"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Bounds of telling.
const (
	tellEvery  = 200 * time.Millisecond // what changes in it is told in one frame
	tellAtOnce = 2048                   // users told in one hold of the hub's mu, about
	tellBytes  = 512 << 10              // of one frame; a client takes 1 MiB
)

// begin finds out about the users that a session has reserved, and tells it of all of them at once.
func (h *hub) begin(ctx context.Context, s *session, topics []*topic) {
	ctx, cancel := context.WithTimeout(ctx, findOutWithin)
	defer cancel()
	h.findOut(ctx, topics)
	h.mu.Lock()
	w := h.clients[s]
	for _, t := range topics {
		t.watchers[w] = struct{}{}
		h.dueLocked(w, t)
	}
	queued := h.tellLocked(w)
	h.mu.Unlock()
	if queued {
		s.poke()
	}
	signal(h.due)
}

// dueLocked notes that a watcher has to be told of a user.
func (h *hub) dueLocked(w *watcher, t *topic) {
	if w.users[t] == toTell {
		return
	}
	w.users[t] = toTell
	w.changed = append(w.changed, t)
	if !w.queued {
		w.queued = true
		h.waiting = append(h.waiting, w)
	}
}

// tellers tells who has to be told, a while after there is somebody: what changes meanwhile goes
// into the same frames.
func (h *hub) tellers(ctx context.Context) {
	for {
		select {
		case <-h.due:
		case <-ctx.Done():
			return
		}
		if lease.Wait(ctx, tellEvery) != nil {
			return
		}
		h.tell()
	}
}

// tell tells everybody who waits. Who has not taken the last frame yet, or has no room, waits on:
// what waits for a client that reads slowly is the latest of each user, in one frame.
func (h *hub) tell() {
	h.mu.Lock()
	waiting := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	left := false
	for len(waiting) > 0 {
		var ready []*session
		n := 0
		h.mu.Lock()
		for users := 0; n < len(waiting) && users < tellAtOnce; n++ {
			w := waiting[n]
			users += 1 + len(w.changed)
			w.queued = false
			if h.tellLocked(w) {
				ready = append(ready, w.s)
			}
			if len(w.changed) > 0 {
				w.queued, left = true, true
				h.waiting = append(h.waiting, w)
			}
		}
		h.mu.Unlock()
		waiting = waiting[n:]
		for _, s := range ready {
			s.poke()
		}
	}
	if left {
		signal(h.due)
	}
}

// tellLocked queues a presence frame of what has changed; false where it could not. Where that is
// more than one frame may hold, the rest is for the next.
func (h *hub) tellLocked(w *watcher) bool {
	if len(w.changed) == 0 || !w.s.takesPresence() {
		return false
	}
	users := make([]schema.EncodedUser, 0, len(w.changed))
	size, n := 0, 0
	for _, t := range w.changed {
		u := h.shownLocked(t, w.s.enc)
		if size += len(u); size > tellBytes && n > 0 {
			break
		}
		users = append(users, u)
		n++
	}
	result := w.s.tell(w.s.enc.Presence(users))
	if result == queueFull {
		return false
	}
	for _, t := range w.changed[:n] {
		w.users[t] = told
	}
	if w.changed = w.changed[n:]; len(w.changed) == 0 {
		w.changed = nil // an idle watcher keeps no memory for it
	}
	if result == queued {
		h.g.metrics.presence(n)
	}
	return result == queued
}
