package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/schema"
)

// busy takes one of the places of a session for what is answered beside the reader; false where
// the client has too much under way.
func (g *Gateway) busy(s *session, work func()) bool {
	if s.sends.Add(1) > int32(g.config.Limits.SendsInFlight) {
		s.sends.Add(-1)
		g.metrics.drop(dropInFlight)
		return false
	}
	s.tasks.Go(func() {
		defer s.sends.Add(-1)
		work()
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
	if !g.busy(s, func() { g.ask(s, up) }) {
		g.fail(s, f.ID, schema.FrameInFlight, "too many sends without an answer", 0)
	}
}

// ask asks the backend and tells the client what became of it.
func (g *Gateway) ask(s *session, up schema.Up) {
	data, err := json.Marshal(up)
	if err != nil {
		g.fail(s, up.ID, schema.FrameBadMessage, err.Error(), 0)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, g.config.Limits.SendTimeout)
	defer cancel()
	m, err := g.push.RequestWithContext(ctx, g.config.Prefix.Up(up.UID), data)
	switch {
	case err == nil:
		g.sent(s, up.ID, m)
	case errors.Is(err, nats.ErrNoResponders):
		g.fail(s, up.ID, schema.FrameNoBackend, "nobody takes what clients send", busyRetry)
	case errors.Is(err, nats.ErrMaxPayload):
		g.fail(s, up.ID, schema.FrameTooLarge, "payload is too large for the backend", 0)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		g.fail(s, up.ID, schema.FrameTimeout, "backend did not answer in time", 0)
	default:
		g.fail(s, up.ID, schema.FrameUnavailable, "backend cannot be reached", busyRetry)
	}
}

// sent gives the client the backend's answer: any JSON value, none, or an error of a micro service.
func (g *Gateway) sent(s *session, id string, m *nats.Msg) {
	if why := m.Header.Get(micro.ErrorHeader); why != "" {
		g.fail(s, id, schema.FrameBackendError, why, 0)
		return
	}
	f := schema.ServerFrame{Type: schema.TypeSent, ID: id, Reply: m.Data}
	if len(m.Data) == 0 {
		f.Reply = nil
	} else if err := schema.CheckPayload(m.Data); err != nil {
		g.metrics.drop(dropPayload)
		g.fail(s, id, schema.FrameBackendError, "backend's answer is no JSON value", 0)
		return
	}
	g.reply(s, f)
}
