package gateway

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// intakeSize bounds the messages that wait in an intake. Each delivery process has one push under
// way, so a full one means that something is wedged: nats.go then drops the newest and says so, and
// who sent it learns nothing and counts it as unknown.
const intakeSize = 1024

// intake is a serving loop: it takes messages one by one, and a probe between any two, so that a
// lease is renewed only while it serves.
type intake struct {
	// static
	msgs   chan *nats.Msg
	probes chan struct{} // unbuffered: who gets a probe in knows that the loop has taken it
	handle func(*nats.Msg)
}

func newIntake(handle func(*nats.Msg)) *intake {
	return &intake{make(chan *nats.Msg, intakeSize), make(chan struct{}), handle}
}

func (in *intake) run(ctx context.Context) {
	for {
		select {
		case m := <-in.msgs:
			in.handle(m)
		case <-in.probes:
		case <-ctx.Done():
			return
		}
	}
}

// errWedged is returned when a serving loop did not take a probe in time.
var errWedged = errors.New("serving loop takes no probe")

// probe waits until the loop has taken a probe.
func (in *intake) probe(ctx context.Context) error {
	select {
	case in.probes <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errWedged
	}
}
