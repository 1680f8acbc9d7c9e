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

// pace decides when the next snapshot is taken. One goroutine uses it. By the zero value it is at once.
type pace struct {
	hold    time.Duration // how long a wish for it has to wait
	failing bool          // the last one failed: the next comes after hold, whether wanted or not
}

func (p *pace) succeeded() { *p = pace{hold: apart} }

func (p *pace) failed() {
	if !p.failing {
		*p = pace{failing: true}
	}
	p.hold = min(max(2*p.hold, retryFirst), retryLast)
}

// next waits until a snapshot is due: a lease (give or take a fifth, so that processes do not all
// ask at once) after the last one, soon when a notice or a reconnect wants one, at once when
// somebody waits for it. It gives those who wait; false = ctx has ended.
func (p *pace) next(ctx context.Context, every time.Duration, wanted <-chan struct{}, refresh <-chan chan error) (waiting []chan error, ok bool) {
	if p.hold == 0 {
		return nil, true
	}
	due := time.NewTimer(every*4/5 + rand.N(every*2/5))
	defer due.Stop()
	hold := time.NewTimer(p.hold)
	defer hold.Stop()
	soon := (<-chan struct{})(nil) // wanted, once hold has passed
	for len(waiting) == 0 {
		select {
		case <-ctx.Done():
			return nil, false
		case <-hold.C:
			if soon = wanted; p.failing {
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
