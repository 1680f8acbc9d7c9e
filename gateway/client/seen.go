package client

import "github.com/rollcall-mesh/rollcall/schema"

type messageKey struct {
	from schema.UID
	id   string
}

// seen remembers the last seenSize messages, across connections.
type seen struct {
	ring []messageKey
	next int // where the oldest stands, once the ring is full
	keys map[messageKey]struct{}
}

// add reports whether the message is new. One without an id cannot be told from others and counts
// as new.
func (s *seen) add(from schema.UID, id string) bool {
	k := messageKey{from, id}
	if _, ok := s.keys[k]; ok || id == "" {
		return !ok
	}
	if s.keys == nil {
		s.keys = make(map[messageKey]struct{})
	}
	s.keys[k] = struct{}{}
	if len(s.ring) < seenSize {
		s.ring = append(s.ring, k)
		return true
	}
	delete(s.keys, s.ring[s.next])
	s.ring[s.next] = k
	s.next = (s.next + 1) % seenSize
	return true
}
