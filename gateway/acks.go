package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Bounds of the acknowledgements that are awaited.
const (
	maxOpenAcks = 1024              // a session may owe; one more push is answered queue_full
	ackLife     = schema.MaxAckWait // an older one is no longer awaited
	maxAckWaits = 4096              // messages that wait at once; one more is answered without acks to follow
)

// acks are the acknowledgements that a device owes: numbers of this session, bound before the
// frame is written. The zero value is ready. Guarded by the session's mu.
type acks struct {
	last uint64
	open map[uint64]owed
}

// owed is one acknowledgement, with who waits for it.
type owed struct {
	since time.Duration
	wait  *ackWait // nil: nobody does
	place int      // of the recipient, among all of the message that waits
}

// bind gives the number for one more message; false where too many are open.
func (a *acks) bind(o owed) (uint64, bool) {
	if len(a.open) >= maxOpenAcks {
		a.expire(o.since)
	}
	if len(a.open) >= maxOpenAcks {
		return 0, false
	}
	if a.open == nil {
		a.open = make(map[uint64]owed)
	}
	a.last++
	a.open[a.last] = o
	o.wait.add()
	return a.last, true
}

// take ends the acknowledgement of a number, and tells who waits for it whether it was given. An
// unknown number does nothing.
func (a *acks) take(n uint64, given bool) {
	if o, ok := a.open[n]; ok {
		delete(a.open, n)
		o.wait.end(o.place, given)
	}
}

// abandon ends all of them: the session has closed, and nothing more comes.
func (a *acks) abandon() {
	for n := range a.open {
		a.take(n, false)
	}
	a.open = nil
}

func (a *acks) expire(now time.Duration) {
	for n, o := range a.open {
		if now-o.since >= ackLife {
			a.take(n, false)
		}
	}
}

// ackWait is a push message whose sender waits for acknowledgements. Nil waits for nothing.
type ackWait struct {
	most time.Duration
	done chan struct{} // closed when none is open any more

	mu    sync.Mutex
	open  int // acknowledgements still awaited, and one more while the message is being written
	bound int
	given []int // places
}

// newAckWait opens the wait that a message asks for; nil where it asks for none.
func newAckWait(req *schema.Push) *ackWait {
	var most time.Duration
	for i := range req.Frames {
		if req.Frames[i].Ack {
			most = max(most, req.Frames[i].AckWait)
		}
	}
	if most <= 0 {
		return nil
	}
	return &ackWait{most: min(most, ackLife), done: make(chan struct{}), open: 1}
}

func (w *ackWait) add() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	w.bound++
}

func (w *ackWait) end(place int, given bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if given {
		w.given = append(w.given, place)
	}
	if w.open--; w.open == 0 {
		close(w.done)
	}
}

// written says that all the message's acknowledgements are bound, and gives how many they are.
func (w *ackWait) written() int {
	w.end(0, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bound
}

// results gives what has become of the message by now; before is what its answer said.
func (w *ackWait) results(before []schema.PushResult) []schema.PushResult {
	after := slices.Clone(before)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, place := range w.given {
		after[place] = schema.PushAcked
	}
	return after
}

// followAcks has tell called, once, with what the acknowledgements have brought: when none is open
// any more, when the wait is over, or when the life ends. The serving loop goes on meanwhile.
func (g *Gateway) followAcks(l *life, w *ackWait, tell func()) {
	over := !l.spawn(func(ctx context.Context) {
		defer l.ackWaits.Add(-1)
		t := time.NewTimer(w.most)
		defer t.Stop()
		select {
		case <-w.done:
		case <-t.C:
		case <-ctx.Done():
		}
		tell()
	})
	if over {
		l.ackWaits.Add(-1)
		tell()
	}
}

// openAckWait begins what a message asks for, where there is room for it.
func (g *Gateway) openAckWait(l *life, req *schema.Push) *ackWait {
	w := newAckWait(req)
	if w == nil {
		return nil
	}
	if l.ackWaits.Add(1) > maxAckWaits {
		l.ackWaits.Add(-1)
		g.metrics.drop(dropAckWaits)
		return nil
	}
	return w
}
