package swarm_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// look is one look-up, and what delivery believes.
type look struct {
	from, to moment
	found    []delivery.Found
}

// push is one message to a user, and what delivery says of it.
type push struct {
	id       string
	from, to moment
	said     delivery.PushedUser
}

// The waits between two look-ups, and between two messages.
const (
	askLeast = 20 * time.Millisecond
	askMost  = 500 * time.Millisecond
)

// ask looks up and pushes all the time, until stopAsking.
func (r *run) ask() {
	looking := bubble.Go(r.t, r.lookUp)
	pushing := bubble.Go(r.t, r.pushAll)
	r.stopAsking = func() {
		_ = looking.Stop()
		_ = pushing.Stop()
	}
}

// lookUp looks all users up.
func (r *run) lookUp(ctx context.Context) error {
	d, uids := newDice(r.seed, 1), r.uids()
	for ctx.Err() == nil {
		l := look{from: r.trace.now()}
		found, err := r.m.Lookup(ctx, uids)
		if l.found, l.to = found, r.trace.now(); err == nil {
			r.mu.Lock()
			r.looks = append(r.looks, l)
			r.mu.Unlock()
		}
		wait(ctx, d.between(askLeast, askMost))
	}
	return nil
}

// pushAll sends to one user after the other, but never to the first: a push that meets no session has
// the route removed, which would hide that nobody else did it.
func (r *run) pushAll(ctx context.Context) error {
	d, uids := newDice(r.seed, 2), r.uids()[1:]
	for n := 0; ctx.Err() == nil; n++ {
		p := push{id: fmt.Sprintf("m%d", n), from: r.trace.now()}
		said, err := r.m.Push(ctx, message(p.id), []schema.UID{pick(d, uids...)})
		if p.to = r.trace.now(); err == nil {
			p.said = said.Users[0]
			r.mu.Lock()
			r.pushes = append(r.pushes, p)
			r.mu.Unlock()
		}
		wait(ctx, d.between(askLeast, askMost))
	}
	return nil
}

func message(id string) delivery.Message {
	return delivery.Message{ID: id, From: "swarm", Payload: []byte(`1`)}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
