package gateway

import (
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
)

// registry holds the pending and active sessions and finds one by its number with an array access:
//
//	number = generation << 32 | index          seats
//	                                           [0] generation 3, session   pending or active
//	find(gen 3, index 0) -> the session        [1] generation 7, none      free: 1..7 are closed
//	find(gen 2, index 0) -> none: closed       [2] generation 1, session
//	find(gen 8, index 1) -> none: not issued   ...
//
// A number is never given twice: a seat's generation grows with each use. What find does not give
// has been closed or was never issued, so none is ever in between.
type registry struct {
	mu    sync.RWMutex
	seats []seat
	free  []uint32
	count int
}

type seat struct {
	generation uint32 // of the session that sits here, or of the last one that did
	session    *session
}

// add seats a session and gives it its number, in one step.
func (r *registry) add(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index := uint32(len(r.seats))
	if n := len(r.free); n > 0 {
		index, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.seats = append(r.seats, seat{})
	}
	place := &r.seats[index]
	place.generation++
	place.session = s
	s.num = schema.NewSessionNum(index, place.generation)
	r.count++
}

// remove frees the seat of a session; a second time, or for another's number, it does nothing.
func (r *registry) remove(num schema.SessionNum) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.findLocked(num) == nil {
		return
	}
	r.seats[num.Index()].session = nil
	r.free = append(r.free, num.Index())
	r.count--
}

// find gives the session of a number; nil where it was closed or never issued.
func (r *registry) find(num schema.SessionNum) *session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.findLocked(num)
}

func (r *registry) findLocked(num schema.SessionNum) *session {
	i := int(num.Index())
	if i >= len(r.seats) || r.seats[i].generation != num.Generation() {
		return nil
	}
	return r.seats[i].session
}

// len counts the sessions seated.
func (r *registry) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.count
}

// page gives up to limit sessions by ascending index, those after the number given.
func (r *registry) page(after schema.SessionNum, limit int) []*session {
	r.mu.RLock()
	defer r.mu.RUnlock()
	first := 0
	if after != 0 {
		first = int(after.Index()) + 1
	}
	var page []*session
	for i := first; i < len(r.seats) && len(page) < limit; i++ {
		if s := r.seats[i].session; s != nil {
			page = append(page, s)
		}
	}
	return page
}
