package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// subscribeWait is for how long the server may take to hear of subscriptions.
const subscribeWait = 2 * time.Second

// watch is one watch under way: all in the caller's goroutine.
type watch struct {
	// static
	nc     *nats.Conn
	prefix subjects.Prefix
	look   func(context.Context, []schema.UID) ([]Found, error)
	order  []schema.UID // as asked
	yield  func(Sighting, error) bool
	lost   func() // counts a resync

	events  chan *nats.Msg
	users   map[schema.UID]*client.Watched
	subs    []*nats.Subscription
	dropped int  // events that the client library has dropped, by the last count
	again   bool // what is stale shall be looked up now, not at the next tick
	missed  bool // steps may have gone by unseen since the last Resync
}

func newWatch(nc *nats.Conn, p subjects.Prefix, look func(context.Context, []schema.UID) ([]Found, error), uids []schema.UID, yield func(Sighting, error) bool) *watch {
	w := &watch{nc: nc, prefix: p, look: look, order: uids, yield: yield, lost: func() {},
		events: make(chan *nats.Msg, client.EventsWaiting), users: make(map[schema.UID]*client.Watched, len(uids))}
	for _, u := range uids {
		if w.users[u] == nil {
			user := client.NewWatched(u)
			user.Stale = true
			w.users[u] = &user
		}
	}
	return w
}

// follow subscribes, looks up, tells of each user, and then of what changes.
func (w *watch) follow(ctx context.Context) error {
	back := w.nc.StatusChanged(nats.CONNECTED)
	defer w.nc.RemoveStatusListener(back)
	defer w.unsubscribe()
	if err := w.subscribe(); err != nil {
		return err
	}
	if err := w.learn(ctx, w.stale(), nil); err != nil {
		return err
	}
	told := make(map[schema.UID]bool, len(w.users))
	for _, u := range w.order {
		if !told[u] && !w.yield(Sighting{Snapshot, w.users[u].Shown()}, nil) {
			return errLeft
		}
		told[u] = true
	}
	return w.changes(ctx, back)
}

// changes takes events, and looks up again what needs it, until ctx ends.
func (w *watch) changes(ctx context.Context, back chan nats.Status) error {
	tick, all := time.NewTicker(client.LookAgain), time.NewTicker(client.LookAtAll)
	defer tick.Stop()
	defer all.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-w.events:
			err = w.event(m)
			if len(w.events) > 0 && err == nil {
				continue // many slots rebuilt are one look-up
			}
		case <-back:
			w.doubtAll(true)
		case <-all.C:
			w.doubtAll(false)
		case <-tick.C:
			if n := w.drops(); n > w.dropped {
				w.dropped = n
				w.doubtAll(true)
			}
			w.again = true
		}
		if err == nil && w.again {
			err = w.relook(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// event takes one event: of a user, or of a slot, all of whose users are then looked up again.
func (w *watch) event(m *nats.Msg) error {
	var e schema.Event
	if err := json.Unmarshal(m.Data, &e); err != nil {
		w.doubtAll(true) // whatever it was, it is not known now
		return nil
	}
	if e.Type == schema.EventRebuilt {
		for _, u := range w.users {
			if u.Slot == e.Slot {
				u.Stale, w.again, w.missed = true, true, true
			}
		}
		return nil
	}
	if u := w.users[e.UID]; u != nil && u.Apply(e) && !w.yield(Sighting{Changed, u.Shown()}, nil) {
		return errLeft
	}
	return nil
}

// doubtAll has every user looked up again now; missed says that there is a cause.
func (w *watch) doubtAll(missed bool) {
	for _, u := range w.users {
		u.Stale = true
	}
	w.again, w.missed = true, w.missed || missed
}

// relook looks up what is stale, tells what has changed by it, and then, once nothing is stale any
// more, that steps may have been missed. Who cannot be found out about stays stale.
func (w *watch) relook(ctx context.Context) error {
	w.again = false
	uids := w.stale()
	if len(uids) == 0 {
		return nil
	}
	changed := false
	err := w.learn(ctx, uids, func(u *client.Watched) bool {
		changed = true
		return w.yield(Sighting{Changed, u.Shown()}, nil)
	})
	switch {
	case errors.Is(err, errLeft), ctx.Err() != nil:
		return err
	case err != nil:
		return w.fatal(err)
	}
	if w.missed = w.missed || changed; !w.missed || len(w.stale()) > 0 {
		return nil
	}
	w.missed = false
	w.lost()
	if !w.yield(Sighting{Kind: Resync}, nil) {
		return errLeft
	}
	return nil
}

// fatal passes on what no later look-up can mend.
func (w *watch) fatal(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, schema.ErrConfig) {
		return err
	}
	return nil
}

// stale gives who has to be looked up, in order.
func (w *watch) stale() (uids []schema.UID) {
	for u, known := range w.users {
		if known.Stale {
			uids = append(uids, u)
		}
	}
	slices.Sort(uids)
	return uids
}

// learn looks users up, once the server has heard whom this watch listens to; then is called for those
// who are not as they were told.
func (w *watch) learn(ctx context.Context, uids []schema.UID, then func(*client.Watched) bool) error {
	heard := w.heard(ctx)
	for some := range slices.Chunk(uids, client.LookAtMost) {
		for _, u := range some {
			w.users[u].Ask()
		}
		found, err := w.look(ctx, some)
		if err != nil {
			w.doubt(some)
			return fmt.Errorf("look up: %w", err)
		}
		for _, f := range found {
			if u := w.users[f.UID]; u != nil && u.Learn(f) && then != nil && !then(u) {
				return errLeft
			}
		}
	}
	if !heard { // an event may have come after its user's answer, and not here
		w.doubt(uids)
		w.missed = true
	}
	return nil
}

// doubt has users looked up again, at the next tick.
func (w *watch) doubt(uids []schema.UID) {
	for _, u := range uids {
		w.users[u].Stale = true
	}
}

// subscribe listens to the users and their slots.
func (w *watch) subscribe() error {
	names := make(map[string]struct{}, 2*len(w.users))
	for _, u := range w.users {
		names[w.prefix.Event(u.UID)], names[w.prefix.SlotEvent(u.Slot)] = struct{}{}, struct{}{}
	}
	for name := range names {
		sub, err := w.nc.ChanSubscribe(name, w.events)
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", name, err)
		}
		w.subs = append(w.subs, sub)
	}
	return nil
}

// heard waits until the server has heard of the subscriptions, also of what nats.go has told it anew
// after a reconnect; false where it has not in time: they stand, and it hears of them when it is back.
func (w *watch) heard(ctx context.Context) bool {
	within, cancel := context.WithTimeout(ctx, subscribeWait)
	defer cancel()
	return w.nc.FlushWithContext(within) == nil
}

func (w *watch) unsubscribe() {
	for _, sub := range w.subs {
		sub.Unsubscribe()
	}
}

// drops counts the events that were lost on the way from the client library.
func (w *watch) drops() (n int) {
	for _, sub := range w.subs {
		if dropped, err := sub.Dropped(); err == nil {
			n += dropped
		}
	}
	return n
}
