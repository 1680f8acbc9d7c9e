package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// EventsCmd prints events as they are published.
type EventsCmd struct {
	Output
	UIDs []string `arg:"" optional:"" name:"uid" help:"Only these users; - reads them from standard input. Default: all."`
}

// eventQueue bounds the events that wait to be printed. NATS drops what comes when it is full, and
// that is said on standard error.
const eventQueue = 16_384

// Run prints until it is ended.
func (c *EventsCmd) Run(s *session) error {
	uids, err := s.uids(c.UIDs)
	if err != nil {
		return err
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	queue := make(chan *nats.Msg, eventQueue)
	if err := a.subscribeEvents(uids, queue); err != nil {
		return err
	}
	for {
		select {
		case <-a.ctx.Done():
			return a.ended()
		case m := <-queue:
			if err := c.print(s, m); err != nil {
				return err
			}
		}
	}
}

// subscribeWait bounds how long the server may take to hear of a subscription.
const subscribeWait = 5 * time.Second

// subscribeEvents listens to the events of users and of their slots; without users, to all.
func (a *asker) subscribeEvents(uids []schema.UID, queue chan *nats.Msg) error {
	names := map[string]bool{}
	for _, u := range uids {
		names[a.prefix.Event(u)], names[a.prefix.SlotEvent(subjects.SlotOf(u))] = true, true
	}
	if len(uids) == 0 {
		names[a.prefix.AllEvents()] = true
	}
	for name := range names {
		if _, err := a.nc.ChanSubscribe(name, queue); err != nil {
			return fmt.Errorf("subscribe to %s: %w", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(a.ctx, subscribeWait)
	defer cancel()
	if err := a.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: subscribe to events: %w", errUnreachable, err)
	}
	return nil
}

func (c *EventsCmd) print(s *session, m *nats.Msg) error {
	if c.JSON {
		_, err := fmt.Fprintf(s.out, "%s\n", m.Data)
		return err
	}
	var e schema.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		fmt.Fprintf(s.err, "rollcall: %s carries no event: %v\n", m.Subject, err)
		return nil
	}
	_, err := fmt.Fprintln(s.out, eventLine(&e))
	return err
}

// eventLine is an event in one line for people.
func eventLine(e *schema.Event) string {
	at := e.At
	if t, err := time.Parse(time.RFC3339Nano, e.At); err == nil {
		at = t.Local().Format(clock)
	}
	if e.Type == schema.EventRebuilt {
		return fmt.Sprintf("%s  slot %d rebuilt", at, e.Slot)
	}
	line := fmt.Sprintf("%s  %-8s %s", at, e.Type, printable(string(e.UID)))
	if r := e.Route; r != nil {
		line += devices(schema.WatchedDevice{Device: r.Device, Flag: r.Flag, Level: r.Level}) + " on " + printable(string(r.Node))
	}
	return fmt.Sprintf("%s  %s, %d left", line, e.Reason, e.Left)
}
