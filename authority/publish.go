package authority

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// recordTick is how often it is looked whether something that was sent to a stream has to be repeated.
const recordTick = 50 * time.Millisecond

// publisher takes events out of the outbox and tells them:
//
//	outbox --> event.<slot>.<token>, at once         anyone who listens
//	       `-> the same, acknowledged, repeated      the stream presence_events, where it is on
//
// Both are one message where nothing of the same user is still on its way to the stream. Else who
// listens is told at once by a message that no stream takes, and once more when it is stored: an
// outage of JetStream holds up nobody who listens, and a stream has a user's events in their order.
type publisher struct {
	*Worker
	tick   *time.Ticker                 // runs while the stream is on
	stream *recorder                    // nil while it is off
	owed   map[schema.Slot]schema.Stamp // slots of which the stream has missed events: it has yet to say rebuilt
}

// publish tells what is in the outbox until ctx ends. What a stream has not taken by then is lost to
// it; the slots' next owner tells it rebuilt.
func (w *Worker) publish(ctx context.Context) {
	p := &publisher{Worker: w, tick: time.NewTicker(recordTick), owed: map[schema.Slot]schema.Stamp{}}
	p.tick.Stop()
	defer p.follow(false)
	p.follow(w.view.Config().Events)
	for {
		var acks chan *nats.Msg
		if p.stream != nil {
			acks = p.stream.acks
		}
		select {
		case <-w.out.wake:
			p.follow(w.view.Config().Events)
			at := time.Now().UTC().Format(time.RFC3339Nano)
			for _, e := range w.out.take() {
				e.At = at
				p.tell(&e)
			}
		case m := <-acks:
			now := time.Now()
			p.stream.ack(now, m)
			for range len(acks) {
				p.stream.ack(now, <-acks)
			}
			p.work(now)
		case <-p.tick.C:
			if p.follow(w.view.Config().Events); p.stream != nil {
				p.work(time.Now())
			}
		case <-ctx.Done():
			return
		}
	}
}

// follow turns the stream on and off.
func (p *publisher) follow(on bool) {
	switch {
	case on && p.stream == nil:
		r, err := newRecorder(p.nc, p.config.Prefix.EventStream(), "rollcall setup --events", p.log, p.meter.eventStream)
		if err != nil {
			p.log.Warn("events are not stored", "err", err)
			return
		}
		p.stream = r
		p.tick.Reset(recordTick)
		p.recording.Store(r)
	case !on && p.stream != nil:
		p.stream.close()
		p.stream = nil
		p.tick.Stop()
		p.recording.Store(nil)
		clear(p.owed)
	}
}

// tell publishes an event, and stores it where that is on.
func (p *publisher) tell(e *schema.Event) {
	m := &nats.Msg{Subject: p.config.Prefix.SlotEvent(e.Slot), Data: e.AppendJSON(nil)}
	if e.UID != "" {
		m.Subject = p.config.Prefix.Event(e.UID)
	}
	if p.stream != nil {
		if p.record(m, e, "") {
			p.meter.events.WithLabelValues(string(e.Type)).Inc()
			return
		}
		m.Header = nats.Header{streamHeader: {noStream}}
	}
	if err := p.nc.PublishMsg(m); err != nil {
		p.meter.eventsDropped.Inc()
		p.log.Debug("event not published", "subject", m.Subject, "err", err)
		return
	}
	p.meter.events.WithLabelValues(string(e.Type)).Inc()
}

// noStream is the name of no stream: each refuses what is for another than itself.
const noStream = "none: stored apart"

// record puts an event on its way into the stream; it reports whether that has told it too.
func (p *publisher) record(m *nats.Msg, e *schema.Event, mark string) (told bool) {
	sent, ok := p.stream.add(time.Now(), &entry{
		subject: m.Subject, body: m.Data, slot: e.Slot, stamp: e.Stamp,
		id: fmt.Sprintf("%d.%d.%d%s", e.Slot, e.Stamp.Fence, e.Stamp.K, mark),
	})
	if !ok {
		p.owe(e.Slot, e.Stamp)
	}
	return sent
}

// work has the stream's messages repeated, and pays what is owed to it.
func (p *publisher) work(now time.Time) {
	for _, e := range p.stream.work(now) {
		p.owe(e.slot, e.stamp)
	}
	p.pay()
}

// owe notes that the stream has missed an event.
func (p *publisher) owe(s schema.Slot, stamp schema.Stamp) {
	if p.owed[s].Compare(stamp) < 0 {
		p.owed[s] = stamp
	}
}

// pay tells, of each slot of which the stream has missed an event, that it has to be looked up again;
// as soon as the stream takes something, however long that is. While it does not, one is tried.
func (p *publisher) pay() {
	for s, stamp := range p.owed {
		if n := p.stream.j.unstored(); n >= maxUnstored || p.stream.j.stalled && n > 0 {
			return
		}
		delete(p.owed, s)
		e := schema.Event{Type: schema.EventRebuilt, Slot: s, Stamp: stamp, At: time.Now().UTC().Format(time.RFC3339Nano)}
		p.record(&nats.Msg{Subject: p.config.Prefix.SlotEvent(s), Data: e.AppendJSON(nil)}, &e, ".lost")
	}
}
