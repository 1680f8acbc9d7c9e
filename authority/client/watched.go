package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Times and sizes by which who watches keeps what it knows true.
const (
	EventsWaiting = 8192            // events not yet taken; one more is lost, and all is looked up again
	LookAgain     = 2 * time.Second // between look-ups of what is not known
	LookAtAll     = 5 * time.Minute // between look-ups of everything: core NATS loses in silence
	LookAtMost    = 1000            // uids a look-up
)

// maxEarly bounds the events that are kept while the first look-up is under way; one more makes
// another look-up.
const maxEarly = 64

// Watched is what is known of one uid that somebody watches: a look-up's answer, moved on by the
// events above its stamp. It is pure, and for one goroutine at a time.
//
// What is known can come into doubt while a look-up is under way, whose answer may then be from
// before: so the start of a look-up ends a doubt (Ask), and no answer does (Learn).
type Watched struct {
	UID   schema.UID
	Slot  schema.Slot
	Stale bool // has to be looked up again

	known   bool // a look-up was answered
	state   schema.UserState
	stamp   schema.Stamp // never falls, also while nothing is known
	devices map[deviceKey]schema.WatchedDevice
	reason  string // of the last event; empty after a look-up
	early   []schema.Event
}

// NewWatched begins to watch a uid, of which nothing is known yet.
func NewWatched(u schema.UID) Watched { return Watched{UID: u, Slot: subjects.SlotOf(u)} }

// deviceKey is a session in the mesh.
type deviceKey struct {
	node    schema.NodeID
	session schema.SessionID
}

// Ask notes that a look-up begins. What makes the uid stale from now on wants another one.
func (w *Watched) Ask() { w.Stale = false }

// Learn takes a look-up's answer; true where it shows, also to who has only been told that the uid is
// unknown so far. An answer older than an event that was applied says nothing new. One that could not
// be had changes nothing that is known.
func (w *Watched) Learn(f Found) bool {
	w.Stale = w.Stale || f.State == schema.Unknown
	if f.State == schema.Unknown && w.known && f.Why != WhyRebuilding {
		return false
	}
	if f.State != schema.Unknown && f.Stamp.Compare(w.stamp) < 0 {
		w.Stale = w.Stale || !w.known
		return false
	}
	old := w.Shown()
	w.known, w.state, w.reason = true, f.State, ""
	if w.stamp.Compare(f.Stamp) < 0 {
		w.stamp = f.Stamp
	}
	w.devices = make(map[deviceKey]schema.WatchedDevice, len(f.Routes))
	for i := range f.Routes {
		r := &f.Routes[i]
		w.devices[deviceKey{r.Owner.Node, r.Session.Outside(r.Owner.Boot)}] = schema.WatchedDevice{Device: r.Device, Flag: r.Flag, Level: r.Level.String()}
	}
	early := w.early
	w.early = nil
	for _, e := range early {
		w.Apply(e)
	}
	return !sameUser(old, w.Shown())
}

// Forget makes the uid unknown, and stale: nobody listens to it any more. What is learnt later is not
// older than what was known.
func (w *Watched) Forget() {
	*w = Watched{UID: w.UID, Slot: w.Slot, Stale: true, stamp: w.stamp}
}

// Apply takes an event; true where watchers have to hear of it.
func (w *Watched) Apply(e schema.Event) bool {
	switch {
	case !w.known && len(w.early) < maxEarly:
		w.early = append(w.early, e)
		return false
	case !w.known:
		w.Stale = true
		return false
	case e.Stamp.Compare(w.stamp) <= 0:
		return false
	}
	w.stamp = e.Stamp
	if w.state == schema.Offline && (e.Type == schema.EventOffline || e.Type == schema.EventRemoved) {
		// A look-up was ahead of an offline that is held back. It comes now, or what went is told as
		// removed, and the next event says who is back. A look-up tells should that not come.
		w.Stale = w.Stale || e.Type == schema.EventRemoved
		return false
	}
	w.reason = e.Reason.String()
	if e.Type == schema.EventOnline || e.Type == schema.EventOffline {
		clear(w.devices)
	}
	if w.devices == nil {
		w.devices = make(map[deviceKey]schema.WatchedDevice)
	}
	if e.Route != nil {
		key := deviceKey{e.Route.Node, e.Route.Session}
		if e.Type == schema.EventOnline || e.Type == schema.EventAdded {
			w.devices[key] = schema.WatchedDevice{Device: e.Route.Device, Flag: e.Route.Flag, Level: e.Route.Level}
		} else {
			delete(w.devices, key)
		}
	}
	w.state = schema.Online
	if e.Type == schema.EventOffline {
		w.state = schema.Offline
	}
	return true
}

// Shown is the user as a presence frame names it.
func (w *Watched) Shown() schema.WatchedUser {
	u := schema.WatchedUser{UID: w.UID, State: string(w.state), Reason: w.reason}
	if !w.known || w.state == schema.Unknown {
		u.State = string(schema.Unknown)
	} else {
		stamp := w.stamp
		u.Stamp = &stamp
	}
	for _, d := range w.devices {
		u.Devices = append(u.Devices, d)
	}
	slices.SortFunc(u.Devices, func(a, b schema.WatchedDevice) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Flag, b.Flag), cmp.Compare(a.Level, b.Level))
	})
	return u
}

// sameUser reports whether a watcher sees no difference but that of stamp and reason.
func sameUser(a, b schema.WatchedUser) bool {
	return a.State == b.State && slices.Equal(a.Devices, b.Devices)
}
