package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/schema"
)

// busy takes one of the places of a session for what is answered beside the reader; false where
// the client has too much under way. work gives the place back before it answers: who has the answer
// may ask for more.
func (g *Gateway) busy(s *session, work func(giveBack func())) bool {
	if s.sends.Add(1) > int32(g.config.Limits.SendsInFlight) {
		s.sends.Add(-1)
		g.metrics.drop(dropInFlight)
		return false
	}
	giveBack := sync.OnceFunc(func() { s.sends.Add(-1) })
	s.tasks.Go(func() {
		defer giveBack() // where there was no answer
		work(giveBack)
	})
	return true
}

// send hands a client's payload to the backend, and its answer to the client.
func (g *Gateway) send(s *session, f schema.ClientFrame) {
	l := g.life.Load()
	switch {
	case len(f.Payload) == 0:
		g.fail(s, f.ID, schema.FrameBadMessage, "payload is missing", 0)
		return
	case l == nil:
		g.fail(s, f.ID, schema.FrameUnavailable, "gateway is not connected to the mesh", busyRetry)
		return
	}
	up := schema.Up{
		ID: f.ID, UID: s.who.UID, Node: l.me.Node, Boot: l.me.Boot, Session: s.num.Outside(l.me.Boot),
		Device: s.who.Device, Flag: s.who.Flag, Payload: f.Payload,
	}
	if !g.busy(s, func(giveBack func()) { g.ask(s, up, giveBack) }) {
		g.fail(s, f.ID, schema.FrameInFlight, "too many sends without an answer", 0)
	}
}

const (
	maxFrame = 1 << 20 // what a client takes, in bytes
	// maxReply bounds a backend's answer, in bytes: some more may wait for the client.
	maxReply = 512 << 10
)

// ask asks the backend and tells the client what became of it.
func (g *Gateway) ask(s *session, up schema.Up, giveBack func()) {
	f := g.askBackend(s.ctx, up)
	if s.ctx.Err() != nil {
		return // nobody waits for it any more
	}
	if s.enc == schema.Msgpack && len(f.Reply) > maxReply/2 { // a number may take thrice as much there as in JSON
		if size := len(encode(s.enc, f)); size > maxFrame {
			g.metrics.drop(dropPayload)
			f = failure(up.ID, schema.FrameBackendError, fmt.Sprintf("backend's answer has %d bytes as msgpack: a client takes %d", size, maxFrame), 0)
		}
	}
	g.metrics.sent(f)
	s.answer(encode(s.enc, f), giveBack)
}

// answer queues what answers a send, once there is room. Until then the send keeps its place, so that what
// waits is bounded by those in flight; whether the client reads too slowly is the writer's to say.
func (s *session) answer(frame []byte, giveBack func()) {
	for room := s.queueOrRoom(frame, giveBack); room != nil; room = s.queueOrRoom(frame, giveBack) {
		select {
		case <-room:
		case <-s.ctx.Done():
			return
		}
	}
	s.poke()
}

// askBackend gives the frame that answers a send.
func (g *Gateway) askBackend(ctx context.Context, up schema.Up) schema.ServerFrame {
	data, err := json.Marshal(up)
	if err != nil {
		return failure(up.ID, schema.FrameBadMessage, err.Error(), 0)
	}
	ctx, cancel := context.WithTimeout(ctx, g.config.Limits.SendTimeout)
	defer cancel()
	m, err := g.push.RequestWithContext(ctx, g.config.Prefix.Up(up.UID), data)
	switch {
	case err == nil:
		return g.backendsAnswer(up.ID, m)
	case errors.Is(err, nats.ErrNoResponders):
		return failure(up.ID, schema.FrameNoBackend, "nobody takes what clients send", busyRetry)
	case errors.Is(err, nats.ErrMaxPayload):
		return failure(up.ID, schema.FrameTooLarge, "payload is too large for the backend", 0)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return failure(up.ID, schema.FrameTimeout, "backend did not answer in time", 0)
	}
	return failure(up.ID, schema.FrameUnavailable, "backend cannot be reached", busyRetry)
}

// backendsAnswer is any JSON value, none, or an error of a micro service.
func (g *Gateway) backendsAnswer(id string, m *nats.Msg) schema.ServerFrame {
	if code, why := m.Header.Get(micro.ErrorCodeHeader), m.Header.Get(micro.ErrorHeader); code != "" || why != "" {
		return failure(id, schema.FrameBackendError, cmp.Or(why, "error "+code), 0)
	}
	f := schema.ServerFrame{Type: schema.TypeSent, ID: id}
	switch {
	case len(m.Data) == 0:
		return f
	case len(m.Data) > maxReply:
		g.metrics.drop(dropPayload)
		return failure(id, schema.FrameBackendError, fmt.Sprintf("backend's answer has %d bytes: %d are taken", len(m.Data), maxReply), 0)
	case schema.CheckPayload(m.Data) != nil:
		g.metrics.drop(dropPayload)
		return failure(id, schema.FrameBackendError, "backend's answer is no JSON value", 0)
	}
	f.Reply = m.Data
	return f
}
