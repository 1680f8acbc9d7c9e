package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// serve is a connection's life: its reader is the goroutine that serve runs on, its writer the one
// that it starts. It returns when both have ended, and all that hangs on the session.
func (g *Gateway) serve(s *session) {
	defer g.door.forget(s)
	g.metrics.states[opening].Add(1)
	var writer sync.WaitGroup
	writer.Go(func() { g.write(s) })
	g.end(s, g.read(s))
	writer.Wait()
	s.tasks.Wait()
	g.watches.leave(s)
}

// messageOverhead is what a message may take on the wire beside its payload, in bytes: the heads of
// its frames, and the control frames between them.
const messageOverhead = 16 << 10

// buffers hold messages while they are decoded; what is kept of them is copied.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// read takes the client's frames until the connection ends or the client breaks a rule.
func (g *Gateway) read(s *session) ending {
	s.wire.readBy(time.Now().Add(g.config.Limits.HelloTimeout))
	for {
		kind, r, err := s.conn.Reader(context.Background())
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && !s.greeted {
				return ending{code: schema.CloseHelloLate}
			}
			return endingOf(err)
		}
		s.alive()
		if kind != s.frameKind() {
			return ending{code: schema.CloseWrongKind, reason: fmt.Sprintf("%s takes %s frames", s.enc.Subprotocol(), s.frameKind())}
		}
		if e := g.readMessage(s, r); e != nil {
			return *e
		}
	}
}

// readMessage reads one message, within its time and bytes, and does what it asks. A broken rule
// is the session's end.
func (g *Gateway) readMessage(s *session, r io.Reader) *ending {
	buf := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buf)
	buf.Reset()
	if s.greeted {
		s.wire.readBy(time.Now().Add(g.config.Limits.MessageTimeout))
	}
	s.wire.budget = int(g.config.Limits.MaxBytes) + messageOverhead
	_, err := buf.ReadFrom(r)
	s.wire.budget = -1
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return &ending{code: schema.CloseHeartbeat, reason: "message took too long"}
		}
		e := endingOf(err)
		return &e
	}
	e := g.frame(s, buf.Bytes())
	if s.greeted {
		s.wire.readBy(time.Time{})
	}
	return e
}

// frame does what one frame asks.
func (g *Gateway) frame(s *session, b []byte) *ending {
	f, err := s.enc.DecodeClient(b)
	switch {
	case errors.Is(err, schema.ErrNotUTF8):
		return &ending{code: schema.CloseBadUTF8}
	case errors.Is(err, schema.ErrMalformed):
		return broken(err.Error())
	case f.Type == schema.TypeHello && s.greeted:
		return broken("second hello")
	case f.Type != schema.TypeHello && !s.greeted:
		return broken("frame before hello")
	case !g.allow(s):
		return g.refuseFrame(s, f.ID)
	case err != nil:
		g.fail(s, f.ID, schema.FrameBadMessage, err.Error(), 0)
		return nil
	case f.Type == schema.TypeHello:
		g.hello(s, f)
		return nil
	}
	g.serveFrame(s, f)
	return nil
}

func broken(reason string) *ending {
	e := ending{code: schema.CloseBadFrame, reason: reason}.withHint(schema.FrameBadMessage, 0)
	return &e
}

// allow counts a frame; false where the client sends too many.
func (g *Gateway) allow(s *session) bool {
	return s.allowance.take(g.now(), g.config.Limits.Rate, g.config.Limits.Burst)
}

func (g *Gateway) refuseFrame(s *session, id string) *ending {
	g.metrics.drop(dropRate)
	wait := time.Second / time.Duration(g.config.Limits.Rate)
	if s.allowance.exhausted(g.config.Limits.Burst) {
		e := ending{code: schema.CloseRate}.withHint(schema.FrameRateLimited, time.Second)
		return &e
	}
	g.fail(s, id, schema.FrameRateLimited, "too many frames", wait)
	return nil
}

// serveFrame does what a frame after the hello asks.
func (g *Gateway) serveFrame(s *session, f schema.ClientFrame) {
	switch f.Type {
	case schema.TypePing:
		g.reply(s, schema.ServerFrame{Type: schema.TypePong, ID: f.ID})
		return
	case schema.TypeAck, schema.TypeSend, schema.TypeWatch, schema.TypeUnwatch, schema.TypeRefresh:
		if s.current() != active {
			g.fail(s, f.ID, schema.FrameUnavailable, "not connected yet", 0)
			return
		}
	}
	switch f.Type {
	case schema.TypeAck:
		g.acknowledge(s, f)
	case schema.TypeSend:
		g.send(s, f)
	case schema.TypeWatch:
		g.watch(s, f)
	case schema.TypeUnwatch:
		g.unwatch(s, f)
	case schema.TypeRefresh:
		g.refresh(s, f)
	default:
		g.fail(s, f.ID, schema.FrameUnknownType, fmt.Sprintf("type %q is unknown", f.Type), 0)
	}
}

// acknowledge takes the device's word that it has messages.
func (g *Gateway) acknowledge(s *session, f schema.ClientFrame) {
	s.mu.Lock()
	for _, n := range f.Acks {
		s.acks.take(n, true)
	}
	s.mu.Unlock()
	if f.ID != "" {
		g.ok(s, f.ID)
	}
}
