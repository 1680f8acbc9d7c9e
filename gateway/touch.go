package gateway

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// sweep visits one slot after the other, so that each is flushed once in a third of a heartbeat and
// the touches of all are spread over it:
//
//	frame -> session dirty since then -> flush: touch -> renewed         clean
//	                ^                                 -> no answer        dirty, since as before
//	                +---------------------------------+  unknown there    the same, and synced
//	                                                  -> superseded       closed
//
// A session that has been dirty for a TTL is closed: its route has gone, and nobody can reach it.
// It runs whether or not the gateway has a life. On a machine that wakes it late it keeps its pace all
// the same, by visiting all slots that are due by then: 256 delays of a quarter of a second would let
// routes go that are alive.
func (g *Gateway) sweep(ctx context.Context) error {
	n, last := schema.Slot(0), g.now()
	for {
		step := g.view.Config().Flush() / schema.Slots
		if lease.Wait(ctx, step) != nil {
			return nil
		}
		var visits int
		for visits, last = due(last, g.now(), step); visits > 0; visits-- {
			g.flushSlot(n)
			n = (n + 1) % schema.Slots
		}
	}
}

// due counts the steps from last to now, and gives when the latest of them was. Of more than a round of
// all slots it forgets the rest.
func due(last, now, step time.Duration) (visits int, latest time.Duration) {
	steps := (now - last) / step
	return int(min(steps, schema.Slots)), last + steps*step
}

// touching is a session whose sign of life is under way.
type touching struct {
	s     *session
	since int64 // of its being dirty
}

func (g *Gateway) flushSlot(n schema.Slot) {
	sl := &g.slots[n]
	now, ttl := g.now(), g.view.Config().TTL()
	var dirty, expired []*session
	oldest := int64(0)
	sl.mu.Lock()
	for _, s := range sl.active {
		switch since := s.dirty.Load(); {
		case since == 0:
			continue
		case now-time.Duration(since) >= ttl:
			expired = append(expired, s)
		default:
			dirty = append(dirty, s)
			oldest = min(cmp.Or(oldest, since), since)
		}
	}
	sl.mu.Unlock()
	sl.oldest.Store(oldest)
	for _, s := range expired {
		g.end(s, ending{code: schema.CloseMeshLost, reason: "route could not be renewed"}.withHint(schema.FrameUnavailable, busyRetry))
	}
	l := g.life.Load()
	if len(dirty) == 0 || l == nil || !sl.flushing.CompareAndSwap(false, true) {
		return
	}
	flush := func(ctx context.Context) {
		defer sl.flushing.Store(false)
		g.touchSlot(ctx, l, n, dirty)
	}
	if !l.spawn(flush) {
		sl.flushing.Store(false)
	}
}

// touchSlot tells a slot's owner which sessions have shown life.
func (g *Gateway) touchSlot(ctx context.Context, l *life, n schema.Slot, dirty []*session) {
	to, ok := g.view.Target(n)
	if !ok {
		g.metrics.touches.WithLabelValues("unowned").Add(float64(len(dirty)))
		return
	}
	slices.SortFunc(dirty, func(a, b *session) int { return byIndex(a.num, b.num) })
	for some := range slices.Chunk(dirty, schema.MaxTouched) {
		g.touch(ctx, l, to, some)
	}
}

// byIndex is the order of sessions in a touch.
func byIndex(a, b schema.SessionNum) int {
	return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(a, b))
}

func (g *Gateway) touch(ctx context.Context, l *life, to schema.Target, sessions []*session) {
	taken := make([]int64, len(sessions))
	touched := make([]schema.Touched, len(sessions))
	now := g.now()
	for i, s := range sessions {
		taken[i] = s.takeDirty()
		touched[i] = schema.Touched{Session: s.num, Idle: max(0, now-time.Duration(s.heard.Load()))}
	}
	exceptions, err := g.mesh.Touch(ctx, to, l.me, touched)
	if err != nil {
		for i, s := range sessions {
			s.giveBack(taken[i])
		}
		g.metrics.touches.WithLabelValues("failed").Add(float64(len(sessions)))
		g.log.Debug("touch not answered", "target", to.String(), "sessions", len(sessions), "err", err)
		return
	}
	g.metrics.touches.WithLabelValues("renewed").Add(float64(len(sessions) - len(exceptions)))
	for _, x := range exceptions {
		g.except(l, x, sessions, taken)
	}
}

// except deals with a session that was not renewed; sessions are in their order.
func (g *Gateway) except(l *life, x schema.TouchException, sessions []*session, taken []int64) {
	i, found := slices.BinarySearchFunc(sessions, x.Session, func(s *session, num schema.SessionNum) int { return byIndex(s.num, num) })
	if !found {
		return
	}
	g.metrics.touches.WithLabelValues(x.Code.String()).Inc()
	if x.Code == schema.CodeSuperseded {
		g.end(sessions[i], ending{code: closeCode(x.Close, schema.CloseKicked)})
		return
	}
	sessions[i].giveBack(taken[i])
	sessions[i].forgotten()
	g.wantSyncOf(l, sessions[i])
}

// oldestDirty is how long the longest sign of life had not been told when its slot was last flushed.
func (g *Gateway) oldestDirty() time.Duration {
	now, oldest := g.now(), time.Duration(0)
	for n := range g.slots {
		if since := g.slots[n].oldest.Load(); since != 0 {
			oldest = max(oldest, now-time.Duration(since))
		}
	}
	return oldest
}
