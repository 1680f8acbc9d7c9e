package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// read notes what comes, until the connection ends.
func (s *Socket) read() {
	for {
		s.await()
		op, payload, err := readFrame(s.in)
		if err != nil {
			s.note(Frame{}, &End{Code: schema.CloseAbnormal, Reason: err.Error()})
			return
		}
		switch op {
		case opClose:
			s.conn.Write(appendFrame(nil, opClose|final, payload))
			s.note(Frame{}, closing(payload))
			return
		case opPing:
			if !s.pongless.Load() {
				s.Write(opPong|final, payload)
			}
			s.note(Frame{op: op}, nil)
		case opPong:
			s.note(Frame{op: op}, nil)
		default:
			f, err := s.enc.DecodeServer(payload)
			if err != nil {
				f.Message = fmt.Sprintf("unreadable: %v", err)
			}
			s.note(Frame{ServerFrame: f, op: op}, nil)
		}
	}
}

// await waits while the socket is paused.
func (s *Socket) await() {
	s.mu.Lock()
	paused := s.paused
	s.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-s.quit:
		}
	}
}

// closing reads a close frame.
func closing(payload []byte) *End {
	if len(payload) < 2 {
		return &End{Code: schema.CloseNoStatus}
	}
	return &End{Code: schema.CloseCode(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
}

// note takes a frame, or the end, and wakes who waits for it.
func (s *Socket) note(f Frame, end *End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end != nil {
		end.At = time.Now()
		s.end = end
	} else {
		f.At = time.Now()
		s.frames = append(s.frames, f)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Frames gives what came, in order.
func (s *Socket) Frames() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// errNotInTime is returned by wait.
var errNotInTime = errors.New("not in time")

// wait waits until cond, called with the lock held, gives true.
func (s *Socket) wait(d time.Duration, cond func() bool) error {
	late := time.After(d)
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-late:
			return errNotInTime
		}
	}
}

// longest is how long anything is waited for that a client must see in the end.
const longest = 2 * time.Minute

// Next waits for the first frame of a type and id that is not before the n-th received.
func (s *Socket) Next(n int, kind schema.FrameType, id string) (found Frame) {
	s.m.T.Helper()
	err := s.wait(longest, func() bool {
		for _, f := range s.frames[min(n, len(s.frames)):] {
			if f.Type == kind && f.ID == id {
				found = f
				return true
			}
		}
		return s.end != nil
	})
	require.NoError(s.m.T, err, "%s of %s", kind, s.uid)
	require.Equal(s.m.T, kind, found.Type, "%s: connection ended with %+v", s.uid, s.end)
	return found
}

// Answer waits for the frame that answers the client's with this id.
func (s *Socket) Answer(id string) (found Frame) {
	s.m.T.Helper()
	err := s.wait(longest, func() bool {
		for _, f := range s.frames {
			if f.ID == id {
				found = f
				return true
			}
		}
		return false
	})
	require.NoError(s.m.T, err, "answer to %s of %s", id, s.uid)
	return found
}

// Connected waits for the login.
func (s *Socket) Connected() Frame {
	s.m.T.Helper()
	return s.Next(0, schema.TypeConnected, "")
}

// Ended waits for the connection's end.
func (s *Socket) Ended() End {
	s.m.T.Helper()
	require.NoError(s.m.T, s.wait(longest, func() bool { return s.end != nil }), "end of %s", s.uid)
	return *s.end
}

// Open reports whether the connection has not ended.
func (s *Socket) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end == nil
}

// User is who the socket said hello as.
func (s *Socket) User() schema.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid
}

// Current gives the session that the socket holds open.
func (s *Socket) Current() (id schema.SessionID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frames {
		if f.Type == schema.TypeConnected {
			id = f.Session // the latest counts
		}
	}
	return id, id != "" && s.end == nil
}

// Got counts how often a message came.
func (s *Socket) Got(id string) (n int) {
	for _, f := range s.Frames() {
		if f.Type == schema.TypeRecv && f.ID == id {
			n++
		}
	}
	return n
}
