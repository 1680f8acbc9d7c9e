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
	"github.com/rollcall-mesh/rollcall/subjects"
)

// findOutWithin is when a new watcher is told that a user is unknown.
const findOutWithin = 2 * time.Second

// hub watches users for the clients of this gateway. Each user is watched once, however many want
// to know:
//
//	client -- watch --> subscribe, flush, look up --> topic --> due --> at most every 200 ms:
//	             event.<slot>.<token> above its stamp --^        ^      one presence frame a watcher
//	             event.<slot>, reconnect, loss, 5 min --> look up again    (tell.go)
//
// A presence frame is made of what is known when it is queued, so a client never sees an older
// state after a newer one.
type hub struct {
	// static
	g        *Gateway
	events   chan *nats.Msg
	again    chan struct{} // one place: what is stale shall be looked up now
	due      chan struct{} // one place: somebody has to be told
	settings chan struct{} // one place: the mesh's have changed

	mu       sync.Mutex
	off      bool // all watches rest (rest.go)
	users    [schema.Slots]map[schema.UID]*topic
	clients  map[*session]*watcher
	waiting  []*watcher // who has to be told, each once
	watching int        // pairs of watcher and user
}

func newHub(g *Gateway) *hub {
	return &hub{
		g: g, events: make(chan *nats.Msg, client.EventsWaiting), clients: make(map[*session]*watcher),
		again: make(chan struct{}, 1), due: make(chan struct{}, 1), settings: make(chan struct{}, 1),
	}
}

// run takes events, tells of them, and looks up again what needs it, until ctx ends.
func (h *hub) run(ctx context.Context) error {
	if h.g.config.WatchOff {
		return nil
	}
	slots, err := h.g.push.ChanSubscribe(h.g.config.Prefix.SlotEvents(), h.events)
	if err != nil {
		return fmt.Errorf("subscribe to the events of slots: %w", err)
	}
	defer unsubscribe(slots)
	h.heed()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { h.lookouts(ctx, slots) })
	beside.Go(func() { h.tellers(ctx) })
	for {
		select {
		case m := <-h.events:
			h.event(m)
		case <-h.settings:
			h.heed()
		case <-ctx.Done():
			return nil
		}
	}
}

// event takes one event: of a user, or of a slot, all of whose users are then looked up again. After one
// that cannot be read, whatever it was, everybody is, at the next tick.
func (h *hub) event(m *nats.Msg) {
	var e schema.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		h.g.metrics.drop(dropMalformed)
		h.g.log.Warn("event could not be read", "subject", m.Subject, "err", err)
		h.doubtAll()
		return
	}
	if e.Type == schema.EventRebuilt {
		if e.Slot < schema.Slots {
			h.stale(e.Slot)
		}
		return
	}
	h.update(e.UID, func(t *topic) bool { return t.Apply(e) })
}

// update changes what is known of a user, and has the watchers told where it shows. Its stamp may move
// where nothing shows: who begins to watch is told the latest.
func (h *hub) update(u schema.UID, change func(*topic) bool) {
	h.mu.Lock()
	any := false
	if t := h.findLocked(u); t != nil && !h.off {
		any = change(t) && len(t.watchers) > 0
		t.encoded = [2]schema.EncodedUser{}
		if any {
			for w := range t.watchers {
				h.dueLocked(w, t)
			}
		}
	}
	h.mu.Unlock()
	if any {
		signal(h.due)
	}
}

func (h *hub) findLocked(u schema.UID) *topic { return h.users[subjects.SlotOf(u)][u] }

// look looks users up and has those told who watch them, of what has changed.
func (h *hub) look(ctx context.Context, uids []schema.UID) {
	for some := range slices.Chunk(uids, client.LookAtMost) {
		for _, f := range h.g.mesh.Lookup(ctx, some) {
			h.update(f.UID, func(t *topic) bool { return t.Learn(f) })
		}
	}
}

// stale has the users of a slot looked up again.
func (h *hub) stale(n schema.Slot) {
	h.mu.Lock()
	any := h.staleLocked(n)
	h.mu.Unlock()
	if any {
		signal(h.again)
	}
}

// doubtAll has all users looked up again.
func (h *hub) doubtAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.users {
		h.staleLocked(schema.Slot(n))
	}
}

func (h *hub) staleLocked(n schema.Slot) (any bool) {
	for _, t := range h.users[n] {
		t.Stale, any = true, true
	}
	return any
}

// lookouts looks up what is stale: at once when told, else every few seconds; and everything after
// a reconnect, after a loss, and every five minutes.
func (h *hub) lookouts(ctx context.Context, slots *nats.Subscription) {
	reconnected := h.g.push.StatusChanged(nats.CONNECTED)
	defer h.g.push.RemoveStatusListener(reconnected)
	tick, all := time.NewTicker(client.LookAgain), time.NewTicker(client.LookAtAll)
	defer tick.Stop()
	defer all.Stop()
	var ofSlots losses
	for {
		select {
		case <-ctx.Done():
			return
		case <-reconnected:
			h.doubtAll()
		case <-all.C:
			h.doubtAll()
		case <-tick.C:
			if h.lost() || ofSlots.more(slots) {
				h.g.metrics.drop(dropWatchReport)
				h.doubtAll()
			}
		case <-h.again:
		}
		h.lookStale(ctx)
	}
}

// lookStale looks up what is stale now; what stays so is tried again at the next tick.
func (h *hub) lookStale(ctx context.Context) {
	var topics []*topic
	h.mu.Lock()
	for n := range h.users {
		for _, t := range h.users[n] {
			if t.Stale && !h.off {
				t.Ask()
				topics = append(topics, t)
			}
		}
	}
	h.mu.Unlock()
	if len(topics) == 0 {
		return
	}
	if err := h.subscribe(ctx, topics); err != nil {
		h.g.log.Debug("watching is not possible now, trying again", "err", err)
	}
	h.look(ctx, uidsOf(topics))
}

// lost reports whether events were lost, since it was last asked, on the way from the client library.
func (h *hub) lost() (any bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.users {
		for _, t := range h.users[n] {
			if t.lost.more(t.sub) {
				any = true
			}
		}
	}
	return any
}

// losses is how many messages a subscription has lost so far.
type losses int

// more reports whether it has lost more since.
func (l *losses) more(sub *nats.Subscription) bool {
	if sub == nil {
		return false
	}
	n, err := sub.Dropped()
	if err != nil || losses(n) <= *l {
		return false
	}
	*l = losses(n)
	return true
}

// counts gives how many users are watched, by how many sessions, and in how many pairs.
func (h *hub) counts() (users, sessions, pairs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.users {
		users += len(h.users[n])
	}
	return users, len(h.clients), h.watching
}

// signal fills a channel's one place.
func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
