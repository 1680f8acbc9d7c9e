package client

import (
	"context"
	"sync"
)

// lanes keeps one lane a key. A lane has one request in flight; what comes meanwhile goes out
// together in the next. An idle lane is nothing at all: no goroutine, no memory, no timer, no
// wait. An entry that finds limit others waiting in its lane is refused with ErrFull.
type lanes[K comparable, E any] struct {
	// static
	limit int
	take  func(waiting []E) int // how many of the waiting go into one request: at least 1
	carry func(ctx context.Context, k K, batch []E)

	mu   sync.Mutex
	busy map[K][]E // what came since the request in flight went out
}

// add brings an entry into its lane; carry will answer it, unless an error is returned here.
func (l *lanes[K, E]) add(c *Client, k K, e E) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	came, busy := l.busy[k]
	switch {
	case busy && len(came) >= l.limit:
		return ErrFull
	case busy:
		l.busy[k] = append(came, e)
		return nil
	}
	if l.busy == nil {
		l.busy = map[K][]E{}
	}
	l.busy[k] = nil
	if !c.spawn(func(ctx context.Context) { l.run(ctx, k, []E{e}) }) {
		delete(l.busy, k)
		return ErrStopped
	}
	return nil
}

// run carries batch after batch until nothing waits.
func (l *lanes[K, E]) run(ctx context.Context, k K, waiting []E) {
	for len(waiting) > 0 {
		n := l.take(waiting)
		l.carry(ctx, k, waiting[:n:n])
		waiting = l.next(k, waiting[n:])
	}
}

// next gives what waits now, the rest of the last take in front, or ends the lane.
func (l *lanes[K, E]) next(k K, rest []E) []E {
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
