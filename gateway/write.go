package gateway

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// poke wakes the writer: there is something to write, or the session has ended.
func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reply queues a frame that the client is owed. A client whose outbox has no room for it reads too
// slowly and is closed: what it is owed is never dropped in silence.
func (g *Gateway) reply(s *session, f schema.ServerFrame) {
	switch s.queue(encode(s.enc, f)) {
	case queued:
		s.poke()
	case queueFull:
		g.end(s, ending{code: schema.CloseSlow})
	}
}

// fail queues an error frame.
func (g *Gateway) fail(s *session, id string, code schema.FrameCode, message string, retryAfter time.Duration) {
	g.reply(s, failure(id, code, message, retryAfter))
}

// failure is the error frame that answers a frame.
func failure(id string, code schema.FrameCode, message string, retryAfter time.Duration) schema.ServerFrame {
	return schema.ServerFrame{
		Type: schema.TypeError, ID: id, Code: code, Message: schema.Sentence(message),
		Retryable: code.Retryable(), RetryAfterMS: retryAfter.Milliseconds(),
	}
}

// ok queues the answer to a frame that has none of its own.
func (g *Gateway) ok(s *session, id string) {
	g.reply(s, schema.ServerFrame{Type: schema.TypeOK, ID: id})
}

// encode gives a frame's bytes. What can fail is a payload, which is checked before it gets here.
func encode(e schema.Encoding, f schema.ServerFrame) []byte {
	b, err := e.Encode(f)
	if err != nil {
		b, _ = e.Encode(schema.ServerFrame{Type: schema.TypeError, ID: f.ID, Code: schema.FrameInternal})
	}
	return b
}

// queueing is what became of a frame for the outbox.
type queueing uint8

const (
	queued queueing = iota
	queueFull
	queueSealed // the session has ended
)

func (s *session) queue(frame []byte) queueing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed:
		return queueSealed
	case !s.out.add(frame, s.g.config.Limits.QueueFrames, s.g.config.Limits.QueueBytes):
		return queueFull
	}
	return queued
}

// queueOrRoom queues a frame, unless the session has ended; where there is no room it gives what is closed
// when there may be some. The place of what is answered is given back, an atomic, before the writer can take
// the frame.
func (s *session) queueOrRoom(frame []byte, giveBack func()) (room <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed:
		return nil
	case s.out.add(frame, s.g.config.Limits.QueueFrames, s.g.config.Limits.QueueBytes):
		giveBack()
		return nil
	case s.room == nil:
		s.room = make(chan struct{})
	}
	return s.room
}

// tell queues a presence frame, unless one is waiting already.
func (s *session) tell(frame []byte) queueing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed:
		return queueSealed
	case s.out.presence, !s.out.add(frame, s.g.config.Limits.QueueFrames, s.g.config.Limits.QueueBytes):
		return queueFull
	}
	s.out.presence = true
	return queued
}

// takesPresence reports whether tell may do more than wait.
func (s *session) takesPresence() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == closed || !s.out.presence
}

// take gives the frames that wait, and the ending of a session that has one.
func (s *session) take() (frames [][]byte, e ending, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
	return s.out.take(), s.ending, s.state == closed
}

// write is the session's writer: it puts what waits into as few socket writes as there can be,
// watches over silence, and says goodbye. It is the only one that closes the connection.
func (g *Gateway) write(s *session) {
	watch := newVigil(s)
	defer watch.timer.Stop()
	for {
		frames, e, over := s.take()
		if err := s.flush(frames); err != nil {
			if tooSlow := errors.Is(err, os.ErrDeadlineExceeded); tooSlow {
				g.end(s, ending{code: schema.CloseSlow, gone: true})
			}
			g.end(s, lost())
			s.bye(lost())
			return
		}
		if over {
			s.bye(e)
			return
		}
		select {
		case <-s.wake:
			if watch.overtaken() {
				watch.look()
			}
		case <-watch.timer.C:
			watch.look()
		}
	}
}

// flush writes frames in one go. A client that does not take them in time is too slow.
func (s *session) flush(frames [][]byte) error {
	if len(frames) == 0 {
		return nil
	}
	s.wire.holdWrites()
	for _, frame := range frames {
		if err := s.conn.Write(context.Background(), s.frameKind(), frame); err != nil {
			s.wire.release(0)
			return err
		}
	}
	return s.wire.release(s.g.config.Limits.WriteTimeout)
}

// frameKind is the kind of WebSocket frame that the session's encoding travels in.
func (s *session) frameKind() websocket.MessageType {
	if s.enc == schema.Msgpack {
		return websocket.MessageBinary
	}
	return websocket.MessageText
}
