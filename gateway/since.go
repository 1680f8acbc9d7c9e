package gateway

import (
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
)

// since is the last revision of the bucket that this boot had read while it had no socket: a slot
// whose fence is not above it need not wait for this gateway's sync. It is 0 in a life that took
// over sockets from an earlier one.
type since struct {
	mu       sync.Mutex
	revision schema.Revision
	tookOver bool
}

// at notes a revision that was read before sockets were counted, and gives what the key is to say.
func (s *since) at(read schema.Revision, sockets int) schema.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sockets == 0 && !s.tookOver:
		s.revision = read
	case read < s.revision: // the log has lost its tail, and with it perhaps what was read
		s.revision = 0
	}
	return s.revision
}

// adopted begins a life, with the sockets of an earlier one or without.
func (s *since) adopted(sockets bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sockets {
		s.revision, s.tookOver = 0, true
	}
}

// reset ends a life.
func (s *since) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.tookOver = 0, false
}
