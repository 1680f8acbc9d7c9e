package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// change is what one operation does to the routes of one uid: open, work, close. It sees no
// record that has lapsed, since open has ended those; close tells of all that happened.
type change struct {
	d       *Directory
	now     time.Duration
	hash    uint32
	uid     schema.UID
	before  int // routes that events have told of
	after   int
	removed []departure
	added   uint32 // the record of the one route that was added
}

// departure is a route that went, or came, and why.
type departure struct {
	route  schema.EventRoute
	reason schema.Reason
}

// open begins an operation on a uid and ends all of the uid's records that have lapsed.
func (d *Directory) open(now time.Duration, uid schema.UID) change {
	c := change{d: d, now: now, hash: d.hashUID(uid), uid: uid}
	first := d.first(c.hash, uid)
	for i := first; i != 0; i = d.slab.at(i).next {
		if d.slab.at(i).state == committed {
			c.before++
		}
	}
	c.after = c.before
	for i := first; i != 0; {
		r := d.slab.at(i)
		next := r.next
		if d.lapsed(r, now) {
			c.lapse(i) // which may move it to behind the next
		}
		i = next
	}
	return c
}

func (c *change) lapse(i uint32) {
	r := c.d.slab.at(i)
	switch {
	case c.d.owners[r.owner].gone:
		c.end(i, floor, schema.ReasonOwnerLost)
	case r.state.timed():
		c.end(i, floor, schema.ReasonTimeout)
	default:
		c.d.drop(i)
	}
}

// end moves a record to a state that is out. One that need not be remembered is dropped at once.
func (c *change) end(i uint32, to state, why schema.Reason) {
	r := c.d.slab.at(i)
	if r.state == committed && !c.d.rebuilding {
		c.removed = append(c.removed, departure{c.d.eventRoute(r), why})
	}
	c.become(i, to)
	if c.d.settled(r) {
		c.d.drop(i)
	}
}

// supersede puts a record out by another: its session is told so, whatever it asks.
func (c *change) supersede(i uint32, by cell) {
	r := c.d.slab.at(i)
	r.loss = by
	c.end(i, superseded, lossReasons[by])
}

var lossReasons = [...]schema.Reason{
	replace: schema.ReasonReplaced,
	kick:    schema.ReasonKicked,
	reject:  schema.ReasonPolicy,
}

// add makes a record of a route that has none, in the state given.
func (c *change) add(o uint32, r *schema.Route, to state, since, active time.Duration) uint32 {
	i := c.d.create(c.hash, o, r, to, since, active)
	if to == committed {
		c.after++
		c.added = i
	}
	return i
}

// become is where states change.
func (c *change) become(i uint32, to state) {
	r := c.d.slab.at(i)
	switch r.state {
	case committed:
		c.after--
		delete(c.d.named, i)
	case pending:
		delete(c.d.pendings, i)
	}
	c.d.leave(c.hash, i)
	r.state = to
	switch to {
	case committed:
		r.active = c.now
		c.after++
		c.added = i
	case superseded:
		r.active = c.now
	}
	c.d.enter(c.hash, i)
}

// visible gives the routes that stand, and their records. Both are good until the next operation.
func (c *change) visible() ([]schema.Route, []uint32) {
	d := c.d
	d.existing, d.indices = d.existing[:0], d.indices[:0]
	if c.after == 0 {
		return nil, nil
	}
	for i := d.first(c.hash, c.uid); i != 0; i = d.slab.at(i).next {
		if r := d.slab.at(i); r.state == committed {
			d.existing = append(d.existing, schema.Route{})
			d.route(r, c.now, &d.existing[len(d.existing)-1])
			d.indices = append(d.indices, i)
		}
	}
	return d.existing, d.indices
}

// close ends the operation and appends its events: what was removed, then what was added. They
// count the net change, so that a replaced route is never an offline; only an offline says that
// nothing is left. It may be held back: then nobody knows yet, and the route that went last counts
// among those left. That is told as removed when the user comes back in time.
func (c *change) close(events []schema.Event) []schema.Event {
	d := c.d
	switch {
	case c.before == 0 && c.after > 0:
		d.online++
	case c.before > 0 && c.after == 0:
		d.online--
	}
	there := c.before > 0 // as far as events have told
	if c.before == 0 && c.after > 0 {
		var last departure
		if last, there = d.grace.back(c.uid); there {
			c.removed = append(c.removed, last)
		}
	}
	if d.rebuilding {
		return events
	}
	left, last := c.after, len(c.removed)-1
	if left == 0 && last >= 0 && d.settings.Grace > 0 && d.grace.hold(c.uid, c.removed[last], c.now) {
		c.removed, left = c.removed[:last], 1
	}
	for n, gone := range c.removed {
		if left == 0 && n == last {
			events = append(events, d.event(c.uid, schema.EventOffline, gone, 0))
			break
		}
		events = append(events, d.event(c.uid, schema.EventRemoved, gone, max(left, 1)))
	}
	if c.added != 0 {
		kind := schema.EventAdded
		if !there {
			kind = schema.EventOnline
		}
		in := departure{d.eventRoute(d.slab.at(c.added)), schema.ReasonConnect}
		events = append(events, d.event(c.uid, kind, in, left))
	}
	return events
}

// event gives an event its stamp: it is told now.
func (d *Directory) event(uid schema.UID, kind schema.EventType, of departure, left int) schema.Event {
	d.stamp++
	return schema.Event{Type: kind, Slot: d.slot, UID: uid, Stamp: d.Stamp(), Reason: of.reason, Route: &of.route, Left: left}
}

func (d *Directory) eventRoute(r *record) schema.EventRoute {
	p, c := d.owners[r.owner].process, &d.classes.list[r.class]
	return schema.EventRoute{
		Node: p.Node, Boot: p.Boot, Session: r.session.Outside(p.Boot),
		Device: r.device(), Flag: c.flag, Level: c.level.String(), Order: r.order,
	}
}
