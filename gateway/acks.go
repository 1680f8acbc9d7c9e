package gateway

import "time"

// Bounds of the acknowledgements that a session may owe.
const (
	maxOpenAcks = 1024
	ackLife     = 30 * time.Second // an older one is no longer awaited
)

// acks are the acknowledgements that a device owes: numbers of this session, bound before the
// frame is written. The zero value is ready. Guarded by the session's mu.
type acks struct {
	last uint64
	open map[uint64]time.Duration // number -> when it was bound
}

// bind gives the number for one more message; false where too many are open.
func (a *acks) bind(now time.Duration) (uint64, bool) {
	if len(a.open) >= maxOpenAcks {
		a.expire(now)
	}
	if len(a.open) >= maxOpenAcks {
		return 0, false
	}
	if a.open == nil {
		a.open = make(map[uint64]time.Duration)
	}
	a.last++
	a.open[a.last] = now
	return a.last, true
}

// take ends the acknowledgement of a number; an unknown one does nothing.
func (a *acks) take(n uint64) { delete(a.open, n) }

func (a *acks) expire(now time.Duration) {
	for n, bound := range a.open {
		if now-bound >= ackLife {
			delete(a.open, n)
		}
	}
}
