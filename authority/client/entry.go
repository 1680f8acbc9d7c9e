package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// slotKey names a lane of a slot: entries of one sender to one target go together.
type slotKey struct {
	target schema.Target
	from   schema.Process
}

// slotLanes are the lanes of one operation.
type slotLanes[I, O any] = Lanes[slotKey, *entry[I, O]]

// entry is what one caller brings into a lane of a slot, and the answer to it.
type entry[I, O any] struct {
	ctx  context.Context // the caller's: an entry whose caller has left is not sent
	in   []I
	out  []O
	err  error
	done chan struct{} // closed when out and err are set
}

// newSlotLanes makes the lanes of one operation. A request takes entries whose weights add up to
// at most most; send makes it and gives an output for each input.
func newSlotLanes[I, O any](c *Client, most int, weight func(I) int, send func(context.Context, slotKey, []I) ([]O, error)) *slotLanes[I, O] {
	take := func(waiting []*entry[I, O]) int {
		sum := 0
		for n, e := range waiting {
			for _, in := range e.in {
				sum += weight(in)
			}
			if sum > most && n > 0 {
				return n
			}
		}
		return len(waiting)
	}
	return NewLanes(c, maxWaiting, take, func(ctx context.Context, k slotKey, batch []*entry[I, O]) {
		carry(ctx, k, batch, send)
	})
}

// maxWaiting bounds the callers that wait in one lane; the next is refused with ErrFull.
const maxWaiting = 4096

// carry sends what its callers still wait for as one request and hands each its part of the answer.
// Where one of them has brought what cannot be written, they go one by one: it spoils no other.
func carry[I, O any](ctx context.Context, k slotKey, batch []*entry[I, O], send func(context.Context, slotKey, []I) ([]O, error)) {
	var all []I
	sent := batch[:0]
	for _, e := range batch {
		if e.err = e.ctx.Err(); e.err != nil {
			close(e.done)
			continue
		}
		sent = append(sent, e)
		all = append(all, e.in...)
	}
	if len(sent) == 0 {
		return
	}
	out, err := send(ctx, k, all)
	if errors.Is(err, errEncode) && len(sent) > 1 {
		for i := range sent {
			carry(ctx, k, sent[i:i+1:i+1], send)
		}
		return
	}
	if err == nil && len(out) != len(all) {
		err = misfit(len(out), len(all))
	}
	for _, e := range sent {
		if e.err = err; err == nil {
			e.out, out = out[:len(e.in):len(e.in)], out[len(e.in):]
		}
		close(e.done)
	}
}

// ride brings one caller's entry into its lane and waits for the answer to it.
func ride[I, O any](ctx context.Context, l *slotLanes[I, O], k slotKey, in []I) ([]O, error) {
	if err := l.c.started(ctx); err != nil {
		return nil, err
	}
	e := &entry[I, O]{ctx: ctx, in: in, done: make(chan struct{})}
	if err := l.Do(ctx, k, e); err != nil {
		return nil, fmt.Errorf("%s: %w", k.target, err)
	}
	select {
	case <-e.done:
		return e.out, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// head opens a request to a slot's owner: the highest fence known, and the sender's settled mark.
func (c *Client) head(k slotKey) schema.SlotHead {
	h := schema.SlotHead{Target: k.target, Seen: c.view.Highest(k.target.Slot), From: k.from}
	if c.config.Settled != nil && !k.from.IsZero() {
		h.Settled = c.config.Settled(k.from)
	}
	return h
}

// toOwner sends one request to a slot's owner. What it returns as nil is an answer of that very
// owner, which no higher fence has overtaken; head points into answer.
func (c *Client) toOwner(ctx context.Context, t schema.Target, op subjects.SlotOp, req, answer schema.Message, head *schema.AnswerHead) error {
	subject := c.config.Prefix.Slot(t.Slot, t.Fence, op)
	try := tryLong
	if op == subjects.Register || op == subjects.Commit {
		try = tryShort
	}
	if err := c.overtaken(t); err != nil {
		return err
	}
	c.learn(t)
	err := patiently(ctx, func() bool { return c.young(t) }, func() error {
		return c.exchange(ctx, subject, try, req, answer)
	})
	if err == nil {
		err = c.accept(t, head)
	}
	c.judge(t, err)
	return err
}
