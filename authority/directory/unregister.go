package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Unregister ends a session and leaves a tombstone, also for an identity that is unknown: what was
// sent before and comes later must not bring it to life. CodeOK, also for a repeated one;
// CodeOldSeq; CodeSuperseded where a session that was put out has seen a higher seq; CodeRetry from
// a boot known to be gone; CodeBad for a uid that is none.
func (d *Directory) Unregister(now time.Time, head schema.SlotHead, e schema.Leave) (schema.Code, []schema.Event) {
	o, ok := d.sender(head)
	if !ok {
		return schema.CodeRetry, nil
	}
	if !fits(e.UID) {
		return schema.CodeBad, nil
	}
	c := d.open(d.tick(now), e.UID)
	return c.unregister(o, &e), c.close(nil)
}

func (c *change) unregister(o uint32, e *schema.Leave) schema.Code {
	d := c.d
	i := d.find(o, e.Session, c.uid)
	if i == 0 {
		if e.Seq < d.owners[o].settled {
			return schema.CodeOldSeq
		}
		c.add(o, &schema.Route{UID: c.uid, Session: e.Session, Seq: e.Seq}, tombstone, c.now, c.now)
		return schema.CodeOK
	}
	r := d.slab.at(i)
	old := e.Seq <= r.seq || e.Seq < d.owners[o].settled
	switch {
	case e.Seq == r.seq && r.state == tombstone:
		return schema.CodeOK
	case old && r.state == superseded:
		return schema.CodeSuperseded
	case old:
		return schema.CodeOldSeq
	}
	r.seq = e.Seq
	c.end(i, tombstone, e.Reason)
	return schema.CodeOK
}

// Remove takes out routes that their owner disowned to a sender of messages, each only while it
// still has the seq that was looked up. It leaves no tombstone: the owner may add the session
// again with a higher seq.
//
// A route in the way of a login is left to that login's commit: its owner has sealed the session, and
// so disowns it, before the login that replaces it is visible. Taken out in between, the user would be
// offline. Where no commit comes it goes once the time of the conflict is over.
func (d *Directory) Remove(now time.Time, disowned []schema.Disowned) (removed int, events []schema.Event) {
	t := d.tick(now)
	for n := range disowned {
		e := &disowned[n]
		o := d.process(e.Owner)
		if o == 0 {
			continue
		}
		c := d.open(t, e.UID)
		i := d.find(o, e.Session, e.UID)
		if i != 0 && d.slab.at(i).state == committed && d.slab.at(i).seq == e.Seq && !d.contested(i, t) {
			c.end(i, floor, schema.ReasonLeave)
			removed++
		}
		events = c.close(events)
	}
	return removed, events
}

// contested reports whether a login has a committed route in its way, and the time has not passed in
// which that has to end.
func (d *Directory) contested(i uint32, now time.Duration) bool {
	first, named := d.named[i]
	return named && now < first+d.settings.Conflict
}
