package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// flights keeps the reads of one key apart: one at a time, and after a failed one a pause that
// doubles from 50 ms to 1 s. Who comes while one is under way waits for the next, so that nobody
// is given what was read before he asked.
type flights struct {
	mu sync.Mutex
	of map[string]*flight // at most one a key; an idle one goes, a failing one not before it was left alone for a while
}

type flight struct {
	turn chan struct{} // one place: who holds it reads

	// guarded by flights.mu
	users int    // who wait or read
	begun uint64 // reads begun
	ended uint64 // the number of the last read whose outcome others may share
	err   error  // its outcome
	pause time.Duration
	until time.Time // no read before: the last one failed
}

// Reread reads a key from the stream's leader, and returns when the view holds what it said after
// the call. When it fails the last known value stays.
func (v *View) Reread(ctx context.Context, key string) error {
	f, asked := v.reads.join(key)
	defer v.reads.leave(key, f)
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return fmt.Errorf("read %s again: %w", key, context.Cause(ctx))
	}
	number, wait, err := v.reads.begin(f, asked)
	if number == 0 {
		return err
	}
	if wait > 0 && Wait(ctx, wait) != nil {
		return fmt.Errorf("read %s again: %w", key, context.Cause(ctx))
	}
	err = v.reread(ctx, key)
	if ctx.Err() == nil {
		v.reads.end(f, number, err)
	}
	return err
}

func (fs *flights) join(key string) (f *flight, asked uint64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f = fs.of[key]
	if f == nil {
		maps.DeleteFunc(fs.of, func(_ string, f *flight) bool { return f.users == 0 && time.Since(f.until) > retryLast })
		f = &flight{turn: make(chan struct{}, 1)}
		fs.of[key] = f
	}
	f.users++
	return f, f.begun
}

// begin gives the number of the read to be made, and how long it must wait; 0 where one that began
// after asked has ended already, with its outcome.
func (fs *flights) begin(f *flight, asked uint64) (number uint64, wait time.Duration, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.ended > asked {
		return 0, 0, f.err
	}
	f.begun++
	return f.begun, time.Until(f.until), nil
}

func (fs *flights) end(f *flight, number uint64, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.ended, f.err = number, err
	if err == nil {
		f.pause, f.until = 0, time.Time{}
		return
	}
	f.pause = min(max(2*f.pause, retryFirst), retryLast)
	f.until = time.Now().Add(f.pause)
}

func (fs *flights) leave(key string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.users--; f.users == 0 && f.pause == 0 {
		delete(fs.of, key)
	}
}

func (v *View) reread(ctx context.Context, key string) error {
	v.mu.RLock()
	before := v.t.held(key)
	v.mu.RUnlock()
	e, err := v.b.read(ctx, key)
	if errors.Is(err, ErrNoKey) {
		if before != 0 { // a key that was never there, or is long gone, is no news of the others
			v.want()
		}
		return v.take(ctx, func(t *table, now time.Time) []Change { return t.missed(key, before, now) })
	}
	if err != nil {
		return err
	}
	if e.rev < before {
		v.want() // a server lost what it had acknowledged, or is behind: a snapshot tells
	}
	return v.take(ctx, func(t *table, now time.Time) []Change { return t.put(e, now, false) })
}
