package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/rollcall-mesh/rollcall/schema"
)

// slot holds the active sessions of one slot. Its mu makes one step of "is the fence still the
// highest, then be active" and of "see a new fence, then take the list of whom to tell it of": so
// no session falls between a login under an old fence and the sync under a new one.
type slot struct {
	flushing atomic.Bool  // a touch is under way
	reading  atomic.Bool  // its key is being read again
	oldest   atomic.Int64 // at the last flush: since when the longest dirty session was; 0: none

	mu      sync.Mutex
	active  []*session
	devices map[deviceOf][]*session // the active ones by device; nil without Config.Local
}

func (sl *slot) addLocked(s *session) {
	s.place = len(sl.active)
	sl.active = append(sl.active, s)
	sl.enterDeviceLocked(s)
}

// remove takes a session out; one that is not in does nothing.
func (sl *slot) remove(s *session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if s.place >= len(sl.active) || sl.active[s.place] != s {
		return
	}
	sl.leaveDeviceLocked(s)
	last := len(sl.active) - 1
	sl.active[s.place] = sl.active[last]
	sl.active[s.place].place = s.place
	sl.active[last] = nil
	sl.active = sl.active[:last]
}

// snapshot gives the sessions of the moment.
func (sl *slot) snapshot() []*session {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return append([]*session(nil), sl.active...)
}

// markActive is the end of a login: the session is active and its connected frame queued, in one
// step. It is not where the session has ended, where another life has begun, or where the fence
// under which it was committed is no longer the highest known, or is known to be another owner's.
func (g *Gateway) markActive(l *life, s *session, by schema.Target, order schema.Order) bool {
	frame := encode(s.enc, s.greeting(l.me))
	sl := &g.slots[s.slot]
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if g.life.Load() != l || g.view.Highest(s.slot) > by.Fence || g.overtaken(by) || !s.activate(by, order, frame) {
		return false
	}
	sl.addLocked(s)
	return true
}
