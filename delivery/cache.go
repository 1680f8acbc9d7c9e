package delivery

import (
	"container/list"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// cacheLife is how long an answer counts, from the start of the look-up that gave it: core NATS
// loses in silence, so nothing that is kept true by events may be believed for longer.
const cacheLife = time.Second

// dropCause is why the cache holds an answer no more. The set is closed: it is a metric's label.
type dropCause string

// The causes.
const (
	dropAged    dropCause = "aged"    // cacheLife is over
	dropEvent   dropCause = "event"   // something has happened to the user
	dropRebuilt dropCause = "rebuilt" // something has happened to all users of the slot
	dropMoved   dropCause = "moved"   // the slot's owner is another than the one that answered
	dropRefused dropCause = "refused" // a gateway knows the session not, or is gone
	dropKicked  dropCause = "kicked"  // sessions of the user were ended here
	dropLost    dropCause = "lost"    // events may have been lost: a reconnect, or too many at once
	dropFull    dropCause = "full"    // another user took the place
)

// cache holds what look-ups of the last second have said. It is pure: no lock, clock, context or
// network.
//
//	ask ---> a ticket, the user in flight --- look-up --- answer ---> keep, if nothing was heard of
//	                     ^                                  ^         the user since the ticket
//	event, rebuilt, refused, lost: the entry goes, and what is in flight will not be kept
//
// An answer so counts only while everything that was heard since its look-up began says nothing of
// its user. A full cache gives the place of its oldest entry away.
type cache struct {
	most    int // entries
	dropped func(dropCause)

	clock   uint64 // counts look-ups and what is heard: ranks one against the other
	entries map[schema.UID]*list.Element
	age     *list.List // of *kept, oldest first
	flights map[schema.UID]*flight
	slots   [schema.Slots]uint64 // when all users of a slot were last in doubt
	all     uint64               // when everybody was
}

// kept is one answer.
type kept struct {
	user            Found
	slot            schema.Slot
	ticket          uint64    // drawn before its look-up began
	begun, answered time.Time // its look-up
}

// flight is a user who is being looked up at the moment, by count look-ups.
type flight struct {
	count int
	heard uint64 // when something was last heard of the user
}

// owners tells who serves a slot by what is known now; a *lease.View does.
type owners interface {
	Address(schema.Slot) (owner schema.Target, highest schema.Revision, owned bool)
}

func newCache(most int, dropped func(dropCause)) *cache {
	return &cache{most: most, dropped: dropped, entries: map[schema.UID]*list.Element{}, age: list.New(), flights: map[schema.UID]*flight{}}
}

// get gives what is kept of a user, if it still counts.
func (c *cache) get(now time.Time, o owners, uid schema.UID) (*kept, bool) {
	e, ok := c.entries[uid]
	if !ok {
		return nil, false
	}
	k := e.Value.(*kept)
	if why := c.doubt(now, o, k); why != "" {
		c.drop(e, why)
		return nil, false
	}
	return k, true
}

// doubt says why an answer counts no more; empty where it does.
func (c *cache) doubt(now time.Time, o owners, k *kept) dropCause {
	switch {
	case now.Sub(k.begun) >= cacheLife:
		return dropAged
	case k.ticket < c.all:
		return dropLost
	case k.ticket < c.slots[k.slot]:
		return dropRebuilt
	}
	owner, highest, owned := o.Address(k.slot)
	if !owned || highest > k.user.Target.Fence || owner.Differs(k.user.Target) != "" {
		return dropMoved
	}
	return ""
}

// tick gives the next number.
func (c *cache) tick() uint64 {
	c.clock++
	return c.clock
}

// ask notes that a look-up of a user begins; the answer is given to keep, whatever it is.
func (c *cache) ask(uid schema.UID) {
	f := c.flights[uid]
	if f == nil {
		f = &flight{}
		c.flights[uid] = f
	}
	f.count++
}

// keep takes the answer of a look-up that began with a ticket, and keeps it if it is certain and
// nothing was heard of the user since. It shares memory with the answer.
func (c *cache) keep(ticket uint64, begun, now time.Time, user Found) {
	f := c.flights[user.UID]
	if f == nil {
		return
	}
	if f.count--; f.count == 0 {
		delete(c.flights, user.UID)
	}
	slot := subjects.SlotOf(user.UID)
	certain := (user.State == schema.Online || user.State == schema.Offline) && !user.Partial && !user.Suspect
	if !certain || max(f.heard, c.slots[slot], c.all) > ticket || now.Sub(begun) >= cacheLife {
		return
	}
	k := &kept{user: user, slot: slot, ticket: ticket, begun: begun, answered: now}
	if e, ok := c.entries[user.UID]; ok {
		if e.Value.(*kept).ticket < ticket {
			e.Value = k
			c.age.MoveToBack(e)
		}
		return
	}
	if len(c.entries) >= c.most {
		c.drop(c.age.Front(), dropFull)
	}
	c.entries[user.UID] = c.age.PushBack(k)
}

// forget drops what is kept or being asked of a user.
func (c *cache) forget(uid schema.UID, why dropCause) {
	if e, ok := c.entries[uid]; ok {
		c.drop(e, why)
	}
	if f, ok := c.flights[uid]; ok {
		f.heard = c.tick()
	}
}

// forgetSlot drops the users of a slot, each when it is asked for next.
func (c *cache) forgetSlot(s schema.Slot) { c.slots[s] = c.tick() }

// forgetAll drops everybody.
func (c *cache) forgetAll() {
	c.all = c.tick()
	for e := c.age.Front(); e != nil; e = c.age.Front() {
		c.drop(e, dropLost)
	}
}

// sweep drops what nobody has asked for in time, so that it holds no memory.
func (c *cache) sweep(now time.Time) {
	for e := c.age.Front(); e != nil && now.Sub(e.Value.(*kept).begun) >= cacheLife; e = c.age.Front() {
		c.drop(e, dropAged)
	}
}

func (c *cache) drop(e *list.Element, why dropCause) {
	delete(c.entries, c.age.Remove(e).(*kept).user.UID)
	c.dropped(why)
}

// shown is an answer as of now, with routes of its own, which are appended to routes.
func (k *kept) shown(now time.Time, routes []schema.Route) (Found, []schema.Route) {
	from, since := len(routes), now.Sub(k.answered)
	routes = append(routes, k.user.Routes...)
	for i := range routes[from:] {
		r := &routes[from+i]
		r.Age, r.Idle, r.TTL = r.Age+since, r.Idle+since, max(0, r.TTL-since)
	}
	user := k.user
	user.Routes = slices.Clip(routes[from:])
	return user, routes
}
