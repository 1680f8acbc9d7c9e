package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
)

// errNoTime is returned when a wait would reach past the deadline of its context.
var errNoTime = errors.New("no time left for another try")

// pace spaces tries: from first, doubling to most.
type pace struct {
	first, most time.Duration
	next        time.Duration
}

// wait waits for the next try, at least as long as asked. It returns errNoTime at once where the
// context's deadline comes before, and the cause of a context that ends.
func (p *pace) wait(ctx context.Context, atLeast time.Duration) error {
	p.next = min(max(p.first, 2*p.next), p.most)
	d := max(p.next, atLeast)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return errNoTime
	}
	return lease.Wait(ctx, d)
}

// reset makes the next wait the first.
func (p *pace) reset() { p.next = 0 }
