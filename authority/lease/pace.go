package lease

import (
	"context"
	"math/rand/v2"
	"time"
)

// How snapshots are paced.
const (
	apart      = time.Second           // the least between a snapshot and one that a notice asks for
	retryFirst = 50 * time.Millisecond // after a failed one, doubling to
	retryLast  = time.Second
)

// pace decides when the next snapshot is taken. One goroutine uses it.
type pace struct {
	last  time.Time     // of the last that succeeded
	pause time.Duration // before the next, after a failure; 0 = the last one succeeded
}

func (p *pace) succeeded() { p.last, p.pause = time.Now(), 0 }
func (p *pace) failed()    { p.pause = min(max(2*p.pause, retryFirst), retryLast) }

// next waits until a snapshot is due: a lease (give or take a fifth, so that processes do not all
// ask at once) after the last one, soon when a notice or a reconnect wants one, at once when
// somebody waits for it. It gives those who wait; false = ctx has ended.
func (p *pace) next(ctx context.Context, every time.Duration, wanted <-chan struct{}, refresh <-chan chan error) (waiting []chan error, ok bool) {
	due := time.NewTimer(every*4/5 + rand.N(every*2/5))
	defer due.Stop()
	hold := time.NewTimer(p.hold())
	defer hold.Stop()
	soon := (<-chan struct{})(nil) // wanted, once hold has passed
	for len(waiting) == 0 {
		select {
		case <-ctx.Done():
			return nil, false
		case <-hold.C:
			if soon = wanted; p.pause > 0 {
				return nil, true
			}
		case <-due.C:
			return nil, true
		case <-soon:
			return nil, true
		case done := <-refresh:
			waiting = append(waiting, done)
		}
	}
	for {
		select {
		case done := <-refresh:
			waiting = append(waiting, done)
		default:
			return waiting, true
		}
	}
}

// hold is how long a wish for a snapshot has to wait.
func (p *pace) hold() time.Duration {
	switch {
	case p.pause > 0:
		return p.pause
	case p.last.IsZero():
		return 0
	}
	return max(0, apart-time.Since(p.last))
}
