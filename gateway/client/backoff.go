package client

import (
	"math/rand/v2"
	"time"
)

// backoff draws the waits between connections, with full jitter: clients that were cut off at the
// same moment come back spread out.
type backoff struct {
	least, most time.Duration
	attempt     int // connections in a row that did not last
}

// next draws a wait of at least after, what the gateway asked for.
func (b *backoff) next(after time.Duration) time.Duration {
	ceiling := b.ceiling()
	b.attempt++
	return after + rand.N(ceiling+1)
}

func (b *backoff) ceiling() time.Duration {
	ceiling := b.least
	for range b.attempt {
		if ceiling >= b.most/2 {
			return b.most
		}
		ceiling *= 2
	}
	return ceiling
}

// lasted tells how long a session was connected; one that was closed at once, such as by an
// overloaded gateway, does not make the next wait short again.
func (b *backoff) lasted(d time.Duration) {
	if d >= stableAfter {
		b.attempt = 0
	}
}
