package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Times and sizes of watching.
const (
	eventsWaiting = 8192            // events not yet taken; one more is lost, and all is looked up again
	lookAgain     = 2 * time.Second // between look-ups of what is not known
	lookAtAll     = 5 * time.Minute // core NATS loses in silence
	lookAtMost    = 1000            // uids a look-up
	subscribeWait = 2 * time.Second
)

// hub watches users for the clients of this gateway. Each user is watched once, however many want
// to know:
//
//	client -- watch --> subscribe, flush, look up --> watched user --> presence to who watches
//	                       event.<slot>.<token> ----> above its stamp     ^
//	                       event.<slot>, reconnect, loss, 5 min --> look up again
//
// A presence frame is queued in the step that changes what is known, so a client never sees an
// older state after a newer one.
type hub struct {
	// static
	g      *Gateway
	events chan *nats.Msg
	again  chan struct{} // one place: what is stale shall be looked up now

	mu      sync.Mutex
	users   map[schema.UID]*topic
	slots   map[schema.Slot]*slotTopic
	clients map[*session]map[schema.UID]struct{}
}

func newHub(g *Gateway) *hub {
	return &hub{
		g: g, events: make(chan *nats.Msg, eventsWaiting), again: make(chan struct{}, 1),
		users: make(map[schema.UID]*topic), slots: make(map[schema.Slot]*slotTopic),
		clients: make(map[*session]map[schema.UID]struct{}),
	}
}

// reserve makes a session one of the watchers of uids; false, and nothing is done, where it would
// watch too many.
func (h *hub) reserve(s *session, uids []schema.UID, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.clients[s]
	fresh := make(map[schema.UID]struct{})
	for _, u := range uids {
		if _, ok := mine[u]; !ok {
			fresh[u] = struct{}{}
		}
	}
	if len(mine)+len(fresh) > most {
		return false
	}
	if mine == nil {
		mine = make(map[schema.UID]struct{})
		h.clients[s] = mine
	}
	for u := range fresh {
		mine[u] = struct{}{}
		h.topicLocked(u).watchers[s] = struct{}{}
	}
	return true
}

func (h *hub) topicLocked(u schema.UID) *topic {
	t := h.users[u]
	if t == nil {
		t = &topic{Watched: client.NewWatched(u), watchers: make(map[*session]struct{})}
		h.users[u] = t
	}
	return t
}

// begin finds out about uids and tells the session, all in one frame.
func (h *hub) begin(s *session, uids []schema.UID) {
	if err := h.subscribe(s.ctx, uids); err != nil {
		h.g.log.Warn("watching is not possible now, trying again", "error", err)
	}
	h.look(s.ctx, uids)
	h.mu.Lock()
	f := schema.ServerFrame{Type: schema.TypePresence}
	for _, u := range uids {
		if t := h.users[u]; t != nil {
			if _, mine := t.watchers[s]; mine {
				f.Users = append(f.Users, t.Shown())
			}
		}
	}
	result := queued
	if len(f.Users) > 0 {
		result = s.queue(encode(s.enc, f))
	}
	h.mu.Unlock()
	h.told(s, result)
}

// told finishes what queue began, outside of any lock.
func (h *hub) told(s *session, result queueing) {
	switch result {
	case queued:
		s.poke()
	case queueFull:
		h.g.end(s, ending{code: schema.CloseSlow})
	}
}

// look looks users up and tells who watches them what has changed.
func (h *hub) look(ctx context.Context, uids []schema.UID) {
	for some := range slices.Chunk(uids, lookAtMost) {
		for _, f := range h.g.mesh.Lookup(ctx, some) {
			h.update(f.UID, func(t *topic) bool { return t.Learn(f) })
		}
	}
}

// update changes what is known of a user, and tells the watchers where it shows.
func (h *hub) update(u schema.UID, change func(*topic) bool) {
	type telling struct {
		s      *session
		result queueing
	}
	var told []telling
	h.mu.Lock()
	if t := h.users[u]; t != nil && change(t) {
		f := schema.ServerFrame{Type: schema.TypePresence, Users: []schema.WatchedUser{t.Shown()}}
		var frames [2][]byte
		for s := range t.watchers {
			if frames[s.enc] == nil {
				frames[s.enc] = encode(s.enc, f)
			}
			told = append(told, telling{s, s.queue(frames[s.enc])})
		}
	}
	h.mu.Unlock()
	for _, one := range told {
		h.told(one.s, one.result)
	}
}

// run takes events and looks up again what needs it, until ctx ends.
func (h *hub) run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { h.lookouts(ctx) })
	for {
		select {
		case m := <-h.events:
			h.event(m)
		case <-ctx.Done():
			return nil
		}
	}
}

// event takes one event: of a user, or of a slot, all of whose users are then looked up again.
func (h *hub) event(m *nats.Msg) {
	var e schema.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		h.g.metrics.drop(dropMalformed)
		h.g.log.Warn("event could not be read", "subject", m.Subject, "error", err)
		return
	}
	if e.Type == schema.EventRebuilt {
		h.stale(func(t *topic) bool { return t.Slot == e.Slot })
		return
	}
	h.update(e.UID, func(t *topic) bool { return t.Apply(e) })
}

// stale has the users chosen looked up again.
func (h *hub) stale(which func(*topic) bool) {
	h.mu.Lock()
	any := false
	for _, t := range h.users {
		if which(t) {
			t.Stale, any = true, true
		}
	}
	h.mu.Unlock()
	if any {
		select {
		case h.again <- struct{}{}:
		default:
		}
	}
}

// lookouts looks up what is stale: at once when told, else every few seconds; and everything after
// a reconnect, after a loss, and every five minutes.
func (h *hub) lookouts(ctx context.Context) {
	reconnected := h.g.push.StatusChanged(nats.CONNECTED)
	defer h.g.push.RemoveStatusListener(reconnected)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	all := time.NewTicker(lookAtAll)
	defer all.Stop()
	everybody := func(*topic) bool { return true }
	lost := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-reconnected:
			h.stale(everybody)
		case <-all.C:
			h.stale(everybody)
		case <-tick.C:
			n := h.lost()
			if n > lost {
				h.g.metrics.drop(dropWatchReport)
				h.stale(everybody)
			}
			lost = n
		case <-h.again:
		}
		h.lookStale(ctx)
	}
}

// lookStale looks up what is stale now; what stays so is tried again at the next tick.
func (h *hub) lookStale(ctx context.Context) {
	var uids []schema.UID
	h.mu.Lock()
	for u, t := range h.users {
		if t.Stale {
			uids = append(uids, u)
		}
	}
	h.mu.Unlock()
	if len(uids) == 0 {
		return
	}
	if err := h.subscribe(ctx, uids); err != nil {
		h.g.log.Debug("watching is not possible now, trying again", "error", fmt.Sprint(err))
	}
	h.look(ctx, uids)
}

// lost counts the events that were lost on the way from the client library.
func (h *hub) lost() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, t := range h.users {
		if t.sub != nil {
			if dropped, err := t.sub.Dropped(); err == nil {
				n += dropped
			}
		}
	}
	return n
}
