package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// reach knows since when the bucket has been within reach. Nobody's lease is judged by silence
// that may have been ours: a failed read or write restarts all timers at the next success.
type reach struct {
	mu      sync.Mutex
	failing bool
	since   time.Time // monotonic; of the last success that followed a failure
}

// heard takes the outcome of a read or write.
func (r *reach) heard(err error) {
	switch {
	case errors.Is(err, context.Canceled): // the caller gave up: that says nothing
	case err == nil, errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, errConflict):
		r.succeeded()
	default:
		r.failed()
	}
}

func (r *reach) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = true
}

func (r *reach) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing {
		r.failing, r.since = false, time.Now()
	}
}

// quiet is how long nothing has been heard since from, by our own doing excluded.
func (r *reach) quiet(from, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing {
		return 0
	}
	if r.since.After(from) {
		from = r.since
	}
	return now.Sub(from)
}
