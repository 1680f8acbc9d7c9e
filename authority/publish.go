package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// recordTick is how often it is looked whether something that was sent to a stream has to be repeated.
const recordTick = 50 * time.Millisecond

// publisher takes events out of the outbox and tells them:
//
//	outbox --> event.<slot>.<token>, at once         anyone who listens
//	       |-> the same, acknowledged, repeated      the stream presence_events, where it is on
//	       `-> of an offline: when, the same way     the bucket last_seen, where that is on
//
// Both are one message where nothing of the same user is still on its way to the stream. Else who
// listens is told at once by a message that no stream takes, and once more when it is stored: an
// outage of JetStream holds up nobody who listens, and a stream has a user's events in their order.
type publisher struct {
	*Worker
	tick   *time.Ticker                 // runs while the stream is on
	stream *recorder                    // of events; nil while it is off
	seen   *recorder                    // of when users were last there; nil while that is off
	owed   map[schema.Slot]schema.Stamp // slots of which the stream has missed events: it has yet to say rebuilt
}

// publish tells what is in the outbox until ctx ends. What a stream has not taken by then is lost to
// it; the slots' next owner tells it rebuilt.
func (w *Worker) publish(ctx context.Context) {
	p := &publisher{Worker: w, tick: time.NewTicker(recordTick), owed: map[schema.Slot]schema.Stamp{}}
	p.tick.Stop()
	defer p.follow(false, false)
	back := w.nc.StatusChanged(nats.CONNECTED)
	defer w.nc.RemoveStatusListener(back)
	p.heed()
	for {
		select {
		case <-back:
			p.again()
		case <-w.out.wake:
			p.heed()
			at := time.Now().UTC().Format(time.RFC3339Nano)
			for _, e := range w.out.take() {
				e.At = at
				p.tell(&e)
			}
		case m := <-p.stream.answers():
			p.stream.takeAcks(m)
			p.work(time.Now())
		case m := <-p.seen.answers():
			p.seen.takeAcks(m)
			p.work(time.Now())
		case <-p.tick.C:
			p.heed()
			p.work(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// heed does as the settings say.
func (p *publisher) heed() {
	c := p.view.Config()
	p.follow(c.Events, c.LastSeen)
}

// follow turns what is recorded on and off.
func (p *publisher) follow(events, seen bool) {
	prefix := p.config.Prefix
	p.stream = p.turn(p.stream, events, &p.recording, prefix.EventStream(), "rollcall setup --events", p.meter.eventStream)
	p.seen = p.turn(p.seen, seen, &p.seeing, prefix.LastSeenStream(), "rollcall setup --last-seen 720h", p.meter.lastSeen)
	if p.stream == nil {
		clear(p.owed)
	}
	if p.stream == nil && p.seen == nil {
		p.tick.Stop()
	}
}

// turn gives a recorder that is on or off.
func (p *publisher) turn(r *recorder, on bool, shown *atomic.Pointer[recorder], stream, advice string, meter recordMetrics) *recorder {
	switch {
	case on && r == nil:
		var err error
		if r, err = newRecorder(p.nc, stream, advice, p.log, meter); err != nil {
			p.log.Warn("nothing is stored", "stream", stream, "err", err)
			return nil
		}
		p.tick.Reset(recordTick)
	case !on && r != nil:
		r.close()
		r = nil
	}
	shown.Store(r)
	return r
}

// tell publishes an event, and stores it where that is on.
func (p *publisher) tell(e *schema.Event) {
	if p.seen != nil && e.Type == schema.EventOffline {
		p.note(e)
	}
	m := &nats.Msg{Subject: p.config.Prefix.SlotEvent(e.Slot), Data: e.AppendJSON(nil)}
	if e.UID != "" {
		m.Subject = p.config.Prefix.Event(e.UID)
	}
	if p.stream != nil && p.record(m, e, "") {
		p.meter.events.WithLabelValues(string(e.Type)).Inc()
		return
	}
	p.say(m, e.Type)
}

// say publishes an event to those who listen, and into no stream.
func (p *publisher) say(m *nats.Msg, kind schema.EventType) {
	if p.stream != nil {
		m.Header = nats.Header{streamHeader: {noStream}}
	}
	if err := p.nc.PublishMsg(m); err != nil {
		p.meter.eventsDropped.Inc()
		p.log.Debug("event not published", "subject", m.Subject, "err", err)
		return
	}
	p.meter.events.WithLabelValues(string(kind)).Inc()
}

// again has all who listen look up again: a connection that ends takes events with it, and those that
// come before there is another one are dropped. The streams need no telling, theirs are repeated.
func (p *publisher) again() {
	at := time.Now().UTC().Format(time.RFC3339Nano)
	for i := range p.held {
		t := p.held[i].Load()
		if t == nil {
			continue
		}
		if e, ok := t.again(); ok {
			e.At = at
			p.say(&nats.Msg{Subject: p.config.Prefix.SlotEvent(e.Slot), Data: e.AppendJSON(nil)}, e.Type)
		}
	}
}

// noStream is the name of no stream: each refuses what is for another than itself.
const noStream = "none: stored apart"

// record puts an event on its way into the stream; it reports whether that has told it too.
func (p *publisher) record(m *nats.Msg, e *schema.Event, mark string) (told bool) {
	sent, ok := p.stream.add(time.Now(), &entry{
		subject: m.Subject, body: m.Data, slot: e.Slot, stamp: e.Stamp,
		id: entryID(e) + mark,
	})
	if !ok {
		p.owe(e.Slot, e.Stamp)
	}
	return sent
}

// note puts it on its way into the bucket when a user was last there. What does not get there is
// counted; nothing else tells.
func (p *publisher) note(e *schema.Event) {
	body, err := json.Marshal(schema.LastSeen{At: time.Now().Add(-e.Ago).UTC().Truncate(time.Millisecond), Stamp: e.Stamp})
	if err != nil {
		return // a time and two numbers always encode
	}
	p.seen.add(time.Now(), &entry{subject: p.config.Prefix.LastSeen(e.UID), body: body, slot: e.Slot, stamp: e.Stamp, id: entryID(e)})
}

func entryID(e *schema.Event) string {
	return fmt.Sprintf("%d.%d.%d", e.Slot, e.Stamp.Fence, e.Stamp.K)
}

// work has what was not acknowledged repeated, and pays what is owed to the stream of events.
func (p *publisher) work(now time.Time) {
	if p.seen != nil {
		p.seen.work(now)
	}
	if p.stream == nil {
		return
	}
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
