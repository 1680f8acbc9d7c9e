package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// syncsInFlight bounds the chunks that are under way to one authority at a time: with as many
// gateways as there may be, a new one is not flooded, and a deaf one keeps up no other.
const syncsInFlight = 8

// syncs says which slots' authorities have to be told of sessions:
//
//	a new fence, a new life ---> whole slot --+
//	touch answered unknown ----> one session -+--> one goroutine a slot, while there is something
//	verdict retry, old_seq ----> one session -+    to tell: chunk, answer, next chunk
//
// A whole slot ends with an empty chunk that is marked last, and not before each session of it was
// taken: until then the authority answers unknown, not offline, for who it has no route of.
type syncs struct {
	mu     sync.Mutex
	wanted [schema.Slots]wantedSync
	places map[schema.Process]chan struct{} // by authority: one a chunk under way
}

type wantedSync struct {
	whole    bool
	sessions map[*session]struct{}
	running  bool
}

// wantSync has a slot's authority told of all its sessions.
func (g *Gateway) wantSync(l *life, n schema.Slot) {
	g.startSync(l, n, func(w *wantedSync) { w.whole = true })
}

// wantSyncOf has a slot's authority told of one session.
func (g *Gateway) wantSyncOf(l *life, s *session) {
	g.startSync(l, s.slot, func(w *wantedSync) { w.add(s) })
}

func (w *wantedSync) add(sessions ...*session) {
	if w.sessions == nil && len(sessions) > 0 {
		w.sessions = make(map[*session]struct{}, len(sessions))
	}
	for _, s := range sessions {
		w.sessions[s] = struct{}{}
	}
}

func (g *Gateway) startSync(l *life, n schema.Slot, want func(*wantedSync)) {
	l.syncs.mu.Lock()
	w := &l.syncs.wanted[n]
	want(w)
	start := !w.running
	w.running = true
	l.syncs.mu.Unlock()
	if start {
		l.spawn(func(ctx context.Context) { g.syncSlot(ctx, l, n) })
	}
}

// take gives what is wanted of a slot; false, and the slot's goroutine ends, where nothing is.
func (y *syncs) take(n schema.Slot) (whole bool, sessions []*session, ok bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	w := &y.wanted[n]
	whole, sessions = w.whole, slices.Collect(maps.Keys(w.sessions))
	w.whole, w.sessions = false, nil
	w.running = whole || len(sessions) > 0
	return whole, sessions, w.running
}

// backlog gives how many slots' authorities have not been told of everything yet.
func (y *syncs) backlog() (slots int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range y.wanted {
		if y.wanted[i].running {
			slots++
		}
	}
	return slots
}

// putBack wants again what could not be told.
func (y *syncs) putBack(n schema.Slot, whole bool, sessions []*session) {
	y.mu.Lock()
	defer y.mu.Unlock()
	w := &y.wanted[n]
	w.whole = w.whole || whole
	w.add(sessions...)
}

// placesAt gives the places of an authority.
func (y *syncs) placesAt(p schema.Process) chan struct{} {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.places == nil {
		y.places = make(map[schema.Process]chan struct{})
	}
	if y.places[p] == nil {
		y.places[p] = make(chan struct{}, syncsInFlight)
	}
	return y.places[p]
}

// syncSlot tells a slot's owner what it has to be told, until there is nothing more.
func (g *Gateway) syncSlot(ctx context.Context, l *life, n schema.Slot) {
	tries := pace{first: 20 * time.Millisecond, most: time.Second}
	for {
		whole, sessions, ok := l.syncs.take(n)
		if !ok {
			return
		}
		again, err := g.syncOnce(ctx, l, n, whole, sessions)
		if err == nil && len(again) == 0 {
			tries.reset()
			continue
		}
		if err != nil {
			again = sessions
			g.log.Debug("sync not answered", "slot", n, "err", err)
		}
		l.syncs.putBack(n, whole, again)
		if tries.wait(ctx, 0) != nil {
			return
		}
	}
}

// syncOnce tells the owner of the moment of all sessions, or of those given. The list is taken in
// the step in which a login would see a higher fence: see slot.
func (g *Gateway) syncOnce(ctx context.Context, l *life, n schema.Slot, whole bool, sessions []*session) (again []*session, err error) {
	to, err := g.mesh.Target(ctx, n)
	if err != nil {
		return nil, err
	}
	if whole {
		sessions = slices.DeleteFunc(g.slots[n].snapshot(), func(s *session) bool { return s.toldUnder(l, to) })
	}
	for chunk := range slices.Chunk(sessions, schema.MaxSync) {
		more, err := g.syncChunk(ctx, l, to, false, chunk)
		if err != nil {
			return nil, err
		}
		again = append(again, more...)
	}
	if whole && len(again) == 0 {
		_, err = g.syncChunk(ctx, l, to, true, nil)
	}
	return again, err
}

// syncChunk tells of one chunk and gives the sessions back that have to be told of again.
func (g *Gateway) syncChunk(ctx context.Context, l *life, to schema.Target, last bool, chunk []*session) (again []*session, err error) {
	places := l.syncs.placesAt(to.Authority)
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	told := make([]touching, 0, len(chunk))
	routes := make([]schema.Route, 0, len(chunk))
	for _, s := range chunk {
		if seq, ok := s.draw(l, to); ok {
			told = append(told, touching{s, s.takeDirty()})
			routes = append(routes, s.route(l.me, seq))
		}
	}
	answer, err := repeat(ctx, g, to, func() (*schema.SyncAnswer, error) { return g.mesh.Sync(ctx, to, l.me, last, routes) })
	for i, t := range told {
		if isAnswer(err) {
			t.s.answered(l, routes[i].Seq)
		}
		if err != nil || !g.judged(l, to, t.s, answer.Verdicts[i]) {
			t.s.giveBack(t.since)
			again = append(again, t.s)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, x := range answer.Losers {
		g.chase(l, x.Owner, schema.KickEntry{UID: x.UID, Session: x.Session, Fence: to.Fence, Close: x.Close})
	}
	return again, nil
}

// judged deals with the verdict on one route; false where it has to be told of again.
func (g *Gateway) judged(l *life, by schema.Target, s *session, v schema.SyncVerdict) bool {
	g.metrics.syncs.WithLabelValues(v.Code.String()).Inc()
	switch v.Code {
	case schema.CodeOK:
		s.acknowledged(l, by)
	case schema.CodeSuperseded:
		g.end(s, ending{code: closeCode(v.Close, schema.CloseKicked)})
	default:
		return false
	}
	return true
}
