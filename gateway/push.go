package gateway

import (
	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// servePush puts messages into the outboxes of the sessions that they are for, and says of each
// what became of it.
func (g *Gateway) servePush(l *life, m *nats.Msg) {
	var req schema.Push
	answer := schema.PushAnswer{ProcessHead: g.head(l, m, &req)}
	if answer.Code == schema.CodeOK && req.To != l.me {
		answer.ProcessHead = wrongProcess(l)
	}
	if answer.Code != schema.CodeOK {
		g.answer(m, &answer)
		return
	}
	var wait *ackWait
	answer.Results, wait = g.pushFrames(l, &req)
	answer.AcksFollow = wait != nil
	g.answer(m, &answer)
	if wait != nil {
		g.followAcks(l, wait, func() {
			g.answer(m, &schema.PushAcks{From: l.me, Results: wait.results(answer.Results)})
		})
	}
}

// pushFrames gives the result for each recipient of each frame; wait is nil where no
// acknowledgement will follow.
func (g *Gateway) pushFrames(l *life, req *schema.Push) (results []schema.PushResult, wait *ackWait) {
	wait = g.openAckWait(l, req)
	for i := range req.Frames {
		results = g.pushFrame(l, &req.Frames[i], wait, results)
	}
	if wait != nil && wait.written() == 0 {
		l.ackWaits.Add(-1)
		return results, nil
	}
	return results, wait
}

// pushFrame appends the result for each recipient of one message.
func (g *Gateway) pushFrame(l *life, f *schema.PushFrame, wait *ackWait, results []schema.PushResult) []schema.PushResult {
	msg := &message{push: f, owed: owed{since: g.now()}}
	if f.AckWait > 0 {
		msg.owed.wait = wait
	}
	for _, r := range f.Recipients {
		msg.owed.place = len(results)
		result := g.pushTo(l, msg, r)
		g.metrics.results[result].Inc()
		results = append(results, result)
	}
	return results
}

// pushTo writes to a session only where all that was looked up still holds: uid, boot (the subject
// is the boot's) and session match one that is active here, and the seq is one that it has drawn.
func (g *Gateway) pushTo(l *life, msg *message, r schema.Recipient) schema.PushResult {
	s := g.registry.find(r.Session)
	if s == nil || s.who.UID != r.UID {
		return schema.PushNoSession
	}
	frame, ok := msg.encoded(s.enc)
	if !ok {
		g.metrics.drop(dropPayload)
		return schema.PushUnknown
	}
	result := s.push(l, r.Seq, msg, frame)
	if result == schema.PushWritten {
		s.poke()
	}
	return result
}

// push queues a message in the step that checks that it is for this session.
func (s *session) push(l *life, seq schema.OwnerSeq, msg *message, frame []byte) schema.PushResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed:
		return schema.PushNoSession
	case s.life != l || !s.drewLocked(seq):
		return schema.PushUnknown
	case s.state != active:
		return schema.PushPending
	}
	if msg.push.Ack {
		n, ok := s.acks.bind(msg.owed)
		if !ok {
			s.g.metrics.drop(dropAcks)
			return schema.PushQueueFull
		}
		if !s.out.add(s.enc.WithAck(frame, n), s.g.config.Limits.QueueFrames, s.g.config.Limits.QueueBytes) {
			s.acks.take(n, false)
			s.g.metrics.drop(dropQueueFull)
			return schema.PushQueueFull
		}
		return schema.PushWritten
	}
	if !s.out.add(frame, s.g.config.Limits.QueueFrames, s.g.config.Limits.QueueBytes) {
		s.g.metrics.drop(dropQueueFull)
		return schema.PushQueueFull
	}
	return schema.PushWritten
}

// message is one message on its way to many sessions: it is encoded once an encoding.
type message struct {
	push   *schema.PushFrame
	owed   owed // by the recipient of the moment, where an acknowledgement is asked for
	frames [2][]byte
	failed bool
}

// encoded gives the message's frame; false where its payload cannot travel in one.
func (m *message) encoded(e schema.Encoding) ([]byte, bool) {
	if m.frames[e] == nil && !m.failed {
		if schema.CheckPayload(m.push.Payload) != nil {
			m.failed = true
			return nil, false
		}
		b, err := e.Encode(schema.ServerFrame{Type: schema.TypeRecv, ID: m.push.ID, From: m.push.From, Payload: m.push.Payload})
		m.frames[e], m.failed = b, err != nil
	}
	return m.frames[e], !m.failed
}
