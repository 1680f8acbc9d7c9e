package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// errUnreadable marks frames that are dropped; the connection stays.
var errUnreadable = errors.New("unreadable frame")

func (s *session) kind() websocket.MessageType {
	if s.enc == schema.Msgpack {
		return websocket.MessageBinary
	}
	return websocket.MessageText
}

func (s *session) sawLife() { s.lastRead.Store(int64(time.Since(s.start))) }

func (s *session) readFrame(ctx context.Context) (schema.ServerFrame, error) {
	kind, b, err := s.conn.Read(ctx)
	if err != nil {
		return schema.ServerFrame{}, err
	}
	s.sawLife()
	if kind != s.kind() {
		return schema.ServerFrame{}, fmt.Errorf("%w: %s on %s", errUnreadable, kind, s.enc.Subprotocol())
	}
	f, err := s.enc.DecodeServer(b)
	if err != nil {
		return f, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return f, nil
}

// read is the reader goroutine: it gives why the connection ended. leaving is the caller's
// context, after whose end nobody takes from the inbox.
func (s *session) read(leaving, ctx context.Context) error {
	defer close(s.inbox)
	defer close(s.done)
	for {
		f, err := s.readFrame(ctx)
		if errors.Is(err, errUnreadable) {
			s.log.Warn("frame dropped", "err", err)
			continue
		}
		if err != nil {
			return s.lost(ctx, err)
		}
		s.route(leaving, ctx, f)
	}
}

// route hands a frame to whom it is for; frames of types unknown here are for nobody.
func (s *session) route(leaving, ctx context.Context, f schema.ServerFrame) {
	switch f.Type {
	case schema.TypeSent, schema.TypeOK, schema.TypeRefreshed:
		s.answer(f)
	case schema.TypeError:
		if f.Close != 0 {
			s.hint = f
		}
		if !s.answer(f) {
			s.log.Warn("gateway reports an error", "code", string(f.Code), "message", f.Message, "id", f.ID)
		}
	case schema.TypeRecv, schema.TypePresence, schema.TypeConnected:
		select {
		case s.inbox <- f:
		case <-leaving.Done():
		case <-ctx.Done():
		}
	}
}

// write is the writer goroutine. It gives up on a connection by cancelling the session's context
// with the reason, which ends the reader too.
func (s *session) write(ctx context.Context, cancel context.CancelCauseFunc) {
	s.vigil.wrote = time.Since(s.start)
	err := s.open(ctx)
	timer := time.NewTimer(time.Hour) // until the first check sets it
	defer timer.Stop()
	if err == nil {
		err = s.keepWatch(ctx, timer)
	}
	for err == nil {
		select {
		case b := <-s.outbox:
			err = s.writeBytes(ctx, b)
		case number := <-s.acks:
			err = s.writeFrame(ctx, s.ackFrame(number))
		case <-timer.C:
			err = s.keepWatch(ctx, timer)
		case <-ctx.Done():
			return
		}
	}
	cancel(err)
}

// open writes what the session begins with, before anything else.
func (s *session) open(ctx context.Context) error {
	for _, o := range s.opening {
		if err := s.writeFrame(ctx, o.frame); err != nil {
			return err
		}
	}
	return nil
}

// keepWatch does what silence asks for and sets the timer to the next check.
func (s *session) keepWatch(ctx context.Context, timer *time.Timer) error {
	now, read := time.Since(s.start), time.Duration(s.lastRead.Load())
	act, next := s.vigil.check(now, read, s.info().Heartbeat)
	timer.Reset(next)
	switch act {
	case giveUp:
		return &LostError{Code: schema.CloseHeartbeat, Reason: fmt.Sprintf("nothing from the gateway for %v", now-read)}
	case ping:
		return s.writeFrame(ctx, schema.ClientFrame{Type: schema.TypePing})
	}
	return nil
}

// ackFrame acknowledges number and what else is ready.
func (s *session) ackFrame(number uint64) schema.ClientFrame {
	f := schema.ClientFrame{Type: schema.TypeAck, Acks: []uint64{number}}
	for len(f.Acks) < acksSize {
		select {
		case number := <-s.acks:
			f.Acks = append(f.Acks, number)
		default:
			return f
		}
	}
	return f
}

// writeFrame writes a frame that nobody waits for; one that the gateway would not take is dropped.
func (s *session) writeFrame(ctx context.Context, f schema.ClientFrame) error {
	b, err := s.encode(f)
	if err != nil {
		s.log.Warn("frame not sent", "type", string(f.Type), "err", err)
		return nil
	}
	return s.writeBytes(ctx, b)
}

func (s *session) writeBytes(ctx context.Context, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, s.kind(), b); err != nil {
		s.awaitEnd(byeTimeout) // a close frame that is already here says more than this error
		return &LostError{Code: schema.CloseAbnormal, Err: err}
	}
	s.vigil.wrote = time.Since(s.start)
	return nil
}
