package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// This file keeps what finds a record in step with the record's state.

// fits reports whether a record can hold a uid. The worker checks all of it, and its slot.
func fits(uid schema.UID) bool { return len(uid) > 0 && len(uid) <= schema.MaxUID }

// create makes a record of a route and puts it in place. The strings of r belong to a message,
// whose memory must not be held for one route: they are copied.
func (d *Directory) create(hash, o uint32, r *schema.Route, to state, since, active time.Duration) uint32 {
	i := d.slab.take()
	*d.slab.at(i) = record{
		text:    string(r.UID) + string(r.Device),
		uidLen:  uint8(len(r.UID) - 1),
		session: r.Session,
		seq:     r.Seq,
		order:   r.Order,
		gen:     r.Gen,
		since:   since,
		active:  active,
		owner:   o,
		class:   d.classes.take(r),
		state:   to,
	}
	d.sessions.insert(hashSession(o, r.Session), i)
	d.enter(hash, i)
	return i
}

// drop forgets a record that is not visible.
func (d *Directory) drop(i uint32) {
	r := d.slab.at(i)
	if r.state == pending {
		delete(d.pendings, i)
	}
	d.leave(d.hashUID(r.uid()), i)
	d.sessions.remove(hashSession(r.owner, r.session), i)
	d.classes.give(r.class)
	d.slab.give(i)
}

// enter hangs a record in where its state belongs: its uid's list, its owner's ring, the wheel.
func (d *Directory) enter(hash, i uint32) {
	r := d.slab.at(i)
	own := &d.owners[r.owner]
	if r.state.out() {
		d.slab.push(&own.out, byOwner, i)
		own.outs++
	} else {
		d.slab.push(&own.stand, byOwner, i)
	}
	if r.state.timed() {
		d.schedule(i)
	}
	if r.state == committed {
		d.count(r.owner, r.class, 1)
	}
	d.chain(hash, i)
}

// leave takes a record out of all that enter hung it in.
func (d *Directory) leave(hash, i uint32) {
	r := d.slab.at(i)
	own := &d.owners[r.owner]
	if r.state.out() {
		d.slab.pull(&own.out, byOwner, i)
		own.outs--
	} else {
		d.slab.pull(&own.stand, byOwner, i)
	}
	if r.state.timed() {
		d.unschedule(i)
	}
	if r.state == committed {
		d.count(r.owner, r.class, -1)
	}
	d.unchain(hash, i)
}

// chain puts a record into its uid's list. Those that are out stand behind the others, so that a
// look-up ends before it meets them.
func (d *Directory) chain(hash, i uint32) {
	r := d.slab.at(i)
	first := d.first(hash, r.uid())
	switch {
	case first == 0:
		r.next = 0
		d.users.insert(hash, i)
	case !r.state.out():
		r.next = first
		d.users.exchange(hash, first, i)
	default:
		last := d.slab.at(first)
		for last.next != 0 && !d.slab.at(last.next).state.out() {
			last = d.slab.at(last.next)
		}
		r.next, last.next = last.next, i
	}
}

func (d *Directory) unchain(hash, i uint32) {
	r := d.slab.at(i)
	first := d.first(hash, r.uid())
	switch {
	case first != i:
		before := d.slab.at(first)
		for before.next != i {
			before = d.slab.at(before.next)
		}
		before.next = r.next
	case r.next == 0:
		d.users.remove(hash, i)
	default:
		d.users.exchange(hash, i, r.next)
	}
	r.next = 0
}
