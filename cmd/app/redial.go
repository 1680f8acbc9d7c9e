package app

import (
	"math/rand/v2"
	"time"

	"github.com/rollcall-mesh/rollcall/deploy"
)

// redial is the wait before an attempt to reach NATS again, counted from 0: once round all the
// servers known is one attempt.
type redial func(attempt int) time.Duration

// redialOf is how a role redials.
func redialOf(role deploy.User) redial {
	if role == deploy.Authority {
		return redialAtOnce
	}
	return redialSpread
}

// The waits of an authority: it has to be back before the others act on the server's word that its
// connection has ended, 100 ms after it (lease rule 5).
const (
	quickRedial = 10 * time.Millisecond
	quickTries  = 10
	lastRedial  = time.Second
)

// redialAtOnce is an authority's: at once, every 10 ms for 100 ms, then doubling to a second. Each
// of the later waits is cut by up to a half, at random: several do not come back in one moment.
func redialAtOnce(attempt int) time.Duration {
	switch {
	case attempt == 0:
		return 0
	case attempt <= quickTries:
		return quickRedial
	}
	wait := lastRedial
	if doublings := attempt - quickTries; doublings < 7 { // 10 ms x 2^7 is above a second
		wait = min(wait, quickRedial<<doublings)
	}
	return wait - rand.N(wait/2)
}

// The waits of the other roles.
const (
	firstRedial = 50 * time.Millisecond
	minRedial   = 500 * time.Millisecond
	maxRedial   = time.Second
)

// redialSpread is the other roles': short once, since a restarted server is back at once, then
// spread, so that a whole mesh does not come back in one moment.
func redialSpread(attempt int) time.Duration {
	if attempt == 0 {
		return firstRedial
	}
	return minRedial + rand.N(maxRedial-minRedial)
}
