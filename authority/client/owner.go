package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Times of what is kept of a slot.
const (
	youngFor   = 250 * time.Millisecond // interest in a new fence may travel as long
	rereadMin  = 50 * time.Millisecond  // between two reads of a slot's key, doubling
	rereadMax  = time.Second
	rereadTime = time.Second // one read
)

// slotNote is what is kept of a slot: since when its fence is known here, and when its key may be
// read again.
type slotNote struct {
	mu      sync.Mutex
	fence   schema.Revision
	since   time.Time
	reading chan struct{} // closed when the read in flight has ended; nil without one
	wait    time.Duration
	next    time.Time       // no read before, unless
	highest schema.Revision // a higher fence than at the last read was heard of
}

// Target gives the owner of a slot. Where none is known it reads the slot's key once, as often as
// that is allowed; ErrUnowned where that does not help.
func (c *Client) Target(ctx context.Context, s schema.Slot) (schema.Target, error) {
	if err := c.started(ctx); err != nil {
		return schema.Target{}, err
	}
	if t, ok := c.view.Target(s); ok {
		return t, nil
	}
	c.await(ctx, c.reread(s))
	if t, ok := c.view.Target(s); ok {
		return t, nil
	}
	if ctx.Err() != nil {
		return schema.Target{}, context.Cause(ctx)
	}
	return schema.Target{}, fmt.Errorf("%w: slot %d", ErrUnowned, s)
}

// learn notes when a fence is met first.
func (c *Client) learn(t schema.Target) {
	n := &c.slots[t.Slot]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fence != t.Fence {
		n.fence, n.since, n.wait, n.next = t.Fence, time.Now(), 0, time.Time{}
	}
}

// young reports whether interest in t may not have come to our server yet.
func (c *Client) young(t schema.Target) bool {
	n := &c.slots[t.Slot]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fence == t.Fence && time.Since(n.since) < youngFor
}

// overtaken says whether a target is known to be deposed: no answer of it would count, so it is
// not asked. A higher fence alone is no reason: where the key still names t, asking makes it rise.
func (c *Client) overtaken(t schema.Target) error {
	now, highest, owned := c.view.Address(t.Slot)
	if owned && highest > t.Fence && now.Differs(t) != "" {
		return fmt.Errorf("%w: %s, where %s is asked", schema.ErrStale, now, t)
	}
	return nil
}

// accept decides whether an answer counts. It does when it says so, comes from the very target
// asked, and no higher fence of the slot is known.
func (c *Client) accept(t schema.Target, h *schema.AnswerHead) error {
	c.saw(t.Slot, h.Seen, h.Target, h.Owner)
	switch field := h.Target.Differs(t); {
	case h.Code.Err() != nil:
	case field != "":
		h.Code, h.Differs, h.Owner = schema.CodeMismatch, field, h.Target
	case c.view.Highest(t.Slot) > t.Fence:
		h.Code = schema.CodeStale
	default:
		return nil
	}
	return &Refusal{*h}
}

// saw takes note of the fences that an answer names.
func (c *Client) saw(s schema.Slot, seen schema.Revision, named ...schema.Target) {
	for _, t := range named {
		if t.Slot == s {
			seen = max(seen, t.Fence)
		}
	}
	c.view.Saw(s, seen)
}

// judge has the slot's key read again where an error says that its owner may be another by now.
func (c *Client) judge(t schema.Target, err error) {
	if errors.Is(err, ErrNoResponders) || errors.Is(err, schema.ErrMismatch) || errors.Is(err, schema.ErrStale) {
		c.reread(t.Slot)
	}
}

// reread has a slot's key read from the stream's leader, one read in flight a slot, and not again
// for 50 ms, doubling to 1 s, unless a higher fence is heard of. The channel returned is closed when the read
// has ended; it is nil where no read is allowed yet.
func (c *Client) reread(s schema.Slot) <-chan struct{} {
	n := &c.slots[s]
	n.mu.Lock()
	defer n.mu.Unlock()
	now, highest := time.Now(), c.view.Highest(s)
	if n.reading != nil {
		return n.reading
	}
	if now.Before(n.next) && highest == n.highest {
		return nil
	}
	n.highest = highest
	if now.Sub(n.next) > rereadMax {
		n.wait = 0 // the last trouble is long over
	}
	n.wait = min(max(rereadMin, 2*n.wait), rereadMax)
	n.next = now.Add(n.wait)
	done := make(chan struct{})
	if !c.spawn(func(ctx context.Context) { c.read(ctx, s, done) }) {
		return nil
	}
	n.reading = done
	return done
}

func (c *Client) read(ctx context.Context, s schema.Slot, done chan struct{}) {
	within, cancel := context.WithTimeout(ctx, rereadTime)
	defer cancel()
	if err := c.view.Reread(within, subjects.SlotKey(s)); err != nil {
		c.log.Debug("slot's key could not be read, its last known owner stays", "slot", s, "err", err)
	}
	n := &c.slots[s]
	n.mu.Lock()
	n.reading = nil
	n.mu.Unlock()
	close(done)
}

// await waits for what reread gave, at most until the context ends.
func (c *Client) await(ctx context.Context, read <-chan struct{}) {
	if read == nil {
		return
	}
	select {
	case <-read:
	case <-ctx.Done():
	}
}
