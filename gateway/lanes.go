package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
)

// lanes carry entries to where they go, a lane a key: one batch of a key is under way at a time,
// and what is added meanwhile goes together in the next. What a send gives back is tried again,
// after waits that double. A lane has a goroutine while it has entries.
//
// Who adds never waits and is never refused; whoever makes entries checks len and stops making
// them.
type lanes[K comparable, E any] struct {
	// static
	most        int // entries of a batch
	first, last time.Duration
	spawn       func(func(context.Context)) bool
	send        func(ctx context.Context, k K, batch []E) (again []E)

	mu      sync.Mutex
	waiting map[K][]E // of each lane that runs
	count   int       // entries, those under way and those to come later included
}

// add brings an entry into the lane of its key. Where nothing can be started any more it is
// dropped: the life that it belongs to has ended.
func (l *lanes[K, E]) add(k K, e E) {
	l.expect(1)
	l.enter(k, e)
}

// addLater is add after a wait. The entry counts from now on: who waits for all waits for it too.
func (l *lanes[K, E]) addLater(wait time.Duration, k K, e E) {
	l.expect(1)
	started := l.spawn(func(ctx context.Context) {
		if lease.Wait(ctx, wait) != nil {
			l.expect(-1)
			return
		}
		l.enter(k, e)
	})
	if !started {
		l.expect(-1)
	}
}

func (l *lanes[K, E]) expect(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count += n
}

// enter puts an entry that is counted already into its lane.
func (l *lanes[K, E]) enter(k K, e E) {
	l.mu.Lock()
	if l.waiting == nil {
		l.waiting = make(map[K][]E)
	}
	before, runs := l.waiting[k]
	l.waiting[k] = append(before, e)
	l.mu.Unlock()
	if !runs && !l.spawn(func(ctx context.Context) { l.run(ctx, k) }) {
		l.drop(k)
	}
}

// len counts the entries that are to come later, wait or are under way.
func (l *lanes[K, E]) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

func (l *lanes[K, E]) run(ctx context.Context, k K) {
	pace := pace{first: l.first, most: l.last}
	for {
		batch := l.take(k)
		if len(batch) == 0 {
			return
		}
		again := l.send(ctx, k, batch)
		l.done(k, len(batch), again)
		if len(again) == 0 {
			pace.reset()
		} else if pace.wait(ctx, 0) != nil {
			l.drop(k)
			return
		}
	}
}

// take gives the next batch; none ends the lane.
func (l *lanes[K, E]) take(k K) []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.waiting[k]
	n := min(len(all), l.most)
	if n == 0 {
		delete(l.waiting, k)
		return nil
	}
	l.waiting[k] = all[n:]
	return all[:n:n]
}

// done ends a batch; what is to be tried again goes first.
func (l *lanes[K, E]) done(k K, sent int, again []E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count -= sent - len(again)
	if len(again) > 0 {
		l.waiting[k] = append(again, l.waiting[k]...)
	}
}

func (l *lanes[K, E]) drop(k K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count -= len(l.waiting[k])
	delete(l.waiting, k)
}
