package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// WatchCmd follows users.
type WatchCmd struct {
	Asking
	UIDs []string `arg:"" name:"uid" help:"Users; - reads them from standard input, one a line."`
}

// relook is how often a watch looks up again without a cause: core NATS loses in silence.
const relook = 5 * time.Minute

// watcher is a watch: subscribe, look up, apply the events above what the look-up
// was stamped with; look up again where events may have been lost. One goroutine does all.
type watcher struct {
	*asker
	session *session
	command *WatchCmd
	users   map[schema.UID]*watched
}

// watched is what is known of one user.
type watched struct {
	state    schema.UserState
	stamp    schema.Stamp
	sessions map[schema.SessionID]schema.WatchedDevice
}

// Run prints the state of each user, then each change, until it is ended.
func (c *WatchCmd) Run(s *session) error {
	uids, err := s.uids(c.UIDs)
	if err != nil {
		return err
	}
	if len(uids) == 0 {
		return fmt.Errorf("%w: name at least one user", errUsage)
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	w := &watcher{asker: a, session: s, command: c, users: make(map[schema.UID]*watched)}
	for _, u := range uids {
		w.users[u] = &watched{}
	}
	return w.run(uids)
}

func (w *watcher) run(uids []schema.UID) error {
	queue := make(chan *nats.Msg, eventQueue)
	if err := w.subscribeEvents(uids, queue); err != nil {
		return err
	}
	if err := w.look(uids, ""); err != nil {
		return err
	}
	tick := time.NewTicker(relook)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-w.ctx.Done():
			return w.ended()
		case m := <-queue:
			err = w.event(m)
		case <-w.again:
			err = w.look(uids, "")
		case <-tick.C:
			err = w.look(uids, "")
		}
		if err != nil {
			return err
		}
	}
}

// look takes what the service knows where that is newer, and prints what has changed by it.
func (w *watcher) look(uids []schema.UID, why schema.EventType) error {
	replies, err := w.lookup(uids, 0, w.command.Timeout)
	if err != nil {
		return err
	}
	for _, r := range replies {
		known := w.users[r.UID]
		if r.Stamp != nil && r.Stamp.Compare(known.stamp) < 0 {
			continue // events have told more
		}
		sessions := make(map[schema.SessionID]schema.WatchedDevice)
		for _, route := range r.Routes {
			sessions[route.Session] = schema.WatchedDevice{Device: route.Device, Flag: route.Flag, Level: route.Level}
		}
		same := known.state == r.State && maps.Equal(known.sessions, sessions)
		known.state, known.sessions = r.State, sessions
		if r.Stamp != nil {
			known.stamp = *r.Stamp
		}
		if !same {
			if err := w.tell(r.UID, string(why)); err != nil {
				return err
			}
		}
	}
	return nil
}

// event applies one event.
func (w *watcher) event(m *nats.Msg) error {
	var e schema.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		fmt.Fprintf(w.session.err, "rollcall: %s carries no event: %v\n", m.Subject, err)
		return nil
	}
	if e.Type == schema.EventRebuilt {
		return w.look(w.ofSlot(e.Slot), e.Type)
	}
	known := w.users[e.UID]
	if known == nil || e.Route == nil || e.Stamp.Compare(known.stamp) <= 0 {
		return nil
	}
	known.stamp = e.Stamp
	switch e.Type {
	case schema.EventOnline, schema.EventAdded:
		known.state = schema.Online
		known.sessions[e.Route.Session] = schema.WatchedDevice{Device: e.Route.Device, Flag: e.Route.Flag, Level: e.Route.Level}
	case schema.EventOffline:
		known.state = schema.Offline
		clear(known.sessions)
	case schema.EventRemoved:
		delete(known.sessions, e.Route.Session)
	}
	return w.tell(e.UID, e.Reason.String())
}

func (w *watcher) ofSlot(slot schema.Slot) []schema.UID {
	var list []schema.UID
	for _, u := range slices.Sorted(maps.Keys(w.users)) {
		if subjects.SlotOf(u) == slot {
			list = append(list, u)
		}
	}
	return list
}

// tell prints what is known of a user.
func (w *watcher) tell(u schema.UID, reason string) error {
	known := w.users[u]
	out := schema.WatchedUser{UID: u, State: string(known.state), Reason: reason}
	if known.stamp != (schema.Stamp{}) {
		out.Stamp = &known.stamp
	}
	for _, id := range slices.Sorted(maps.Keys(known.sessions)) {
		out.Devices = append(out.Devices, known.sessions[id])
	}
	if w.command.JSON {
		return printJSON(w.session.out, out)
	}
	_, err := fmt.Fprintf(w.session.out, "%s  %-8s %s%s  %s\n",
		time.Now().Format(clock), out.State, printable(string(u)), devices(out.Devices...), reason)
	return err
}
