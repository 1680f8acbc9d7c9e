package client

import (
	"context"
	"sync"
)

// Lanes keeps one lane a key. A lane has one request in flight; what comes meanwhile goes out
// together in the next. An idle lane is nothing at all: no goroutine, no memory, no timer, no
// wait. It works while its client's Run does.
type Lanes[K comparable, E any] struct {
	// static
	c     *Client
	limit int
	take  func(waiting []E) int
	carry func(ctx context.Context, k K, batch []E)

	mu   sync.Mutex
	busy map[K][]E // what came since the request in flight went out
}

// NewLanes makes lanes. An entry that finds limit others waiting in its lane is refused. Take says
// how many of the waiting, at least 1 of at least 1, go into one request; carry makes it, under a
// context that ends with the client's Run, and answers each entry of the batch.
func NewLanes[K comparable, E any](c *Client, limit int, take func([]E) int, carry func(context.Context, K, []E)) *Lanes[K, E] {
	return &Lanes[K, E]{c: c, limit: limit, take: take, carry: carry, busy: map[K][]E{}}
}

// Add brings an entry into its lane; carry will answer it. The error is ErrFull or ErrStopped.
func (l *Lanes[K, E]) Add(k K, e E) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	came, busy := l.busy[k]
	switch {
	case busy && len(came) >= l.limit:
		return ErrFull
	case busy:
		l.busy[k] = append(came, e)
	case l.c.spawn(func(ctx context.Context) { l.run(ctx, k, []E{e}) }):
		l.busy[k] = nil
	default:
		return ErrStopped
	}
	return nil
}

// run carries batch after batch until nothing waits.
func (l *Lanes[K, E]) run(ctx context.Context, k K, waiting []E) {
	for len(waiting) > 0 {
		n := l.take(waiting)
		l.carry(ctx, k, waiting[:n:n])
		waiting = l.next(k, waiting[n:])
	}
}

// next gives what waits now, the rest of the last take in front, or ends the lane.
func (l *Lanes[K, E]) next(k K, rest []E) []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := l.busy[k]
	if len(rest)+len(came) == 0 {
		delete(l.busy, k)
		return nil
	}
	l.busy[k] = nil
	if len(rest) == 0 {
		return came
	}
	return append(rest, came...)
}
