package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

// ErrWedged is returned when a serving loop did not take a probe in time.
var ErrWedged = errors.New("serving loop takes no probe")

// Loop is a serving loop: a queue of messages and the function that serves them, one by one. It
// takes a probe between any two, so that a lease is renewed only while it serves. Any number of
// goroutines may run one loop.
type Loop struct {
	// Queue is what a subscription is given (ChanSubscribe). When it is full nats.go drops the newest
	// and reports a slow consumer; who sent it learns nothing, times out and asks again.
	Queue  chan *nats.Msg
	probes chan struct{} // unbuffered: who gets a probe in knows that the loop has taken it
	serve  func(*nats.Msg)
}

// NewLoop makes a loop in which size messages may wait.
func NewLoop(size int, serve func(*nats.Msg)) *Loop {
	return &Loop{Queue: make(chan *nats.Msg, size), probes: make(chan struct{}), serve: serve}
}

// Run serves until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	for {
		select {
		case m := <-l.Queue:
			l.serve(m)
		case <-l.probes:
		case <-ctx.Done():
			return
		}
	}
}

// Probe returns nil once the loop has taken a probe, and ErrWedged when ctx ends first.
func (l *Loop) Probe(ctx context.Context) error {
	select {
	case l.probes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrWedged, context.Cause(ctx))
	}
}
