package authority

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// queued is how many requests may wait for one loop. It is small, since what is served after its
// requester gave up is wasted work. When it is full, nats.go drops what comes and reports a slow
// consumer; the requester times out and asks again.
const queued = 4096

// loop is a queue of requests and the function that serves them.
type loop struct {
	queue  chan *nats.Msg
	probes chan struct{} // unbuffered: a probe is taken only by a loop that is not stuck
	serve  func(*nats.Msg)
}

func newLoop(serve func(*nats.Msg)) *loop {
	return &loop{queue: make(chan *nats.Msg, queued), probes: make(chan struct{}), serve: serve}
}

func (l *loop) run(ctx context.Context) {
	for {
		select {
		case m := <-l.queue:
			l.serve(m)
		case <-l.probes:
		case <-ctx.Done():
			return
		}
	}
}

// probe returns once the loop has taken it.
func (l *loop) probe(ctx context.Context) error {
	select {
	case l.probes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a serving loop takes nothing from its queue: %w", context.Cause(ctx))
	}
}
