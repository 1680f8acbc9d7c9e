package gateway

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// serveKick ends sessions of this process. Its answer says that they are out: of the registry, with
// their outboxes sealed. The sockets close after that. Without entries it says: I am here.
func (g *Gateway) serveKick(l *life, m *nats.Msg) {
	var req schema.Kick
	answer := schema.KickAnswer{ProcessHead: g.head(l, m, &req)}
	if answer.Code == schema.CodeOK && req.To != l.me {
		answer.ProcessHead = wrongProcess(l)
	}
	if answer.Code == schema.CodeOK {
		answer.Results = make([]schema.Code, len(req.Entries))
		for i, e := range req.Entries {
			answer.Results[i] = g.kicked(e)
		}
	}
	g.answer(m, &answer)
}

// kicked ends one session, active or pending. Where the slot's fence is known to be higher than the
// kick's, the verdict behind it is out of date, and it is not obeyed. One too far above all that is
// known is obeyed once the slot's key has shown that there are such: retry.
//
// Only a committed route is ever kicked. A session that is pending here has overtaken the answer to
// its own login, so its client is told both: that it was in, and what put it out.
func (g *Gateway) kicked(e schema.KickEntry) schema.Code {
	slot := subjects.SlotOf(e.UID)
	if e.Fence < g.view.Highest(slot) {
		return schema.CodeStale
	}
	if !g.view.Saw(slot, e.Fence) {
		g.rereadKey(slot) // the key decides
		return schema.CodeRetry
	}
	s := g.registry.find(e.Session)
	if s == nil || s.who.UID != e.UID {
		return schema.CodeUnknown
	}
	if !g.end(s, ending{code: closeCode(e.Close, schema.CloseKicked), reason: e.Why, untold: s.untold()}) {
		return schema.CodeUnknown
	}
	return schema.CodeOK
}

// rereadKey has a slot's key read from the stream's leader, one read in flight a slot.
func (g *Gateway) rereadKey(n schema.Slot) {
	reading := &g.slots[n].reading
	l := g.life.Load()
	if l == nil || !reading.CompareAndSwap(false, true) {
		return
	}
	read := func(ctx context.Context) {
		defer reading.Store(false)
		if err := g.view.Reread(ctx, subjects.SlotKey(n)); err != nil {
			g.log.Debug("slot's key could not be read", "slot", n, "err", err)
		}
	}
	if !l.spawn(read) {
		reading.Store(false)
	}
}

// untold is the connected frame of a session whose client does not know yet that it was logged in;
// nil for any other.
func (s *session) untold() *schema.ServerFrame {
	s.mu.Lock()
	state, l := s.state, s.life
	s.mu.Unlock()
	if state != pending || l == nil {
		return nil
	}
	return new(s.greeting(l.me))
}

// head reads a request and opens its answer.
func (g *Gateway) head(l *life, m *nats.Msg, req schema.Message) schema.ProcessHead {
	head := schema.ProcessHead{From: l.me}
	if err := schema.Unmarshal(m.Data, req); err != nil {
		g.metrics.drop(dropMalformed)
		g.log.Warn("request could not be read", "subject", m.Subject, "err", err)
		head.Code, head.Why = schema.CodeBad, err.Error()
	}
	return head
}

func wrongProcess(l *life) schema.ProcessHead {
	return schema.ProcessHead{From: l.me, Code: schema.CodeMismatch, Why: "addressed to another process"}
}

func (g *Gateway) answer(m *nats.Msg, answer schema.Message) {
	data, err := schema.Marshal(answer)
	g.respond(m, data, err)
}

// respond sends an answer. A request without a reply subject was sent by mistake, and one whose is the
// mesh's own, or the server's, by no process of it.
func (g *Gateway) respond(m *nats.Msg, data []byte, err error) {
	if !g.config.Prefix.Answerable(m.Reply) {
		return
	}
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		g.log.Warn("answer could not be sent", "subject", m.Subject, "err", err)
	}
}
