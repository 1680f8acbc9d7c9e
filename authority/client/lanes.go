package client

import (
	"context"
	"sync"
)

// Lanes keeps one lane a key. A lane has one request in flight; what comes meanwhile goes out
// together in the next. Who finds a lane idle makes the request himself, and hands on what came
// meanwhile: an idle lane is nothing at all, no goroutine, no memory, no timer, no wait. It works
// while its client's Run does.
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
// how many of the waiting, at least 1 of at least 1, go into one request; carry makes it and
// answers each entry of the batch. Its context is that of the client's Run, or, for an entry that
// goes alone, that of Do.
func NewLanes[K comparable, E any](c *Client, limit int, take func([]E) int, carry func(context.Context, K, []E)) *Lanes[K, E] {
	return &Lanes[K, E]{c: c, limit: limit, take: take, carry: carry, busy: map[K][]E{}}
}

// Do brings an entry into its lane; carry will answer it, and may have done so when Do returns.
// The error is ErrFull or ErrStopped.
func (l *Lanes[K, E]) Do(ctx context.Context, k K, e E) error {
	lead, err := l.enter(k, e)
	if lead {
		l.carry(ctx, k, []E{e})
		l.pass(k)
	}
	return err
}

// Add is Do, but it never waits.
func (l *Lanes[K, E]) Add(k K, e E) error {
	lead, err := l.enter(k, e)
	if lead {
		l.hand(k, []E{e})
	}
	return err
}

// enter puts an entry into a busy lane; lead says that it was idle and is the caller's now.
func (l *Lanes[K, E]) enter(k K, e E) (lead bool, err error) {
	if l.c.ended() {
		return false, ErrStopped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	came, busy := l.busy[k]
	switch {
	case !busy:
		l.busy[k] = nil
		return true, nil
	case len(came) >= l.limit:
		return false, ErrFull
	}
	l.busy[k] = append(came, e)
	return false, nil
}

// pass ends a lane, or hands on what came meanwhile.
func (l *Lanes[K, E]) pass(k K) {
	if waiting := l.next(k, nil); len(waiting) > 0 {
		l.hand(k, waiting)
	}
}

// hand has a goroutine carry what waits. Once Run has ended there is none; then all is carried
// under its ended context, which fails at once.
func (l *Lanes[K, E]) hand(k K, waiting []E) {
	if !l.c.spawn(func(ctx context.Context) { l.run(ctx, k, waiting) }) {
		l.run(l.c.life, k, waiting)
	}
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
