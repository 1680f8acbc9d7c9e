package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Sync takes in sessions that are active at their gateway, with the orders that they were given.
// Each is judged against the routes that stand by rank, whatever the order of arrival; never
// against pending logins, which meet it as a conflict when they commit. It gives a verdict a
// route, in order: CodeOK, CodeOldSeq, CodeSuperseded with a close code, CodeRetry from a boot
// known to be gone, CodeBad for a uid that is none. The losers are the routes that were put out:
// their sockets are to be closed.
func (d *Directory) Sync(now time.Time, head schema.SlotHead, routes []schema.Route) (verdicts []schema.SyncVerdict, losers []schema.Loser, events []schema.Event) {
	verdicts = make([]schema.SyncVerdict, len(routes))
	o, ok := d.sender(head)
	t := d.tick(now)
	for n := range routes {
		if !ok {
			verdicts[n].Code = schema.CodeRetry
			continue
		}
		if !fits(routes[n].UID) {
			verdicts[n].Code = schema.CodeBad
			continue
		}
		c := d.open(t, routes[n].UID)
		verdicts[n], losers = c.sync(o, &routes[n], losers)
		events = c.close(events)
	}
	return verdicts, losers, events
}

func (c *change) sync(o uint32, in *schema.Route, losers []schema.Loser) (schema.SyncVerdict, []schema.Loser) {
	d := c.d
	i := d.find(o, in.Session, c.uid)
	old := in.Seq < d.owners[o].settled
	if i != 0 {
		r := d.slab.at(i)
		switch {
		case r.state == superseded:
			return schema.SyncVerdict{Code: schema.CodeSuperseded, Close: r.loss.close()}, losers
		case in.Seq == r.seq && r.state == committed:
			return schema.SyncVerdict{}, c.losersAgain(losers)
		case in.Seq <= r.seq:
			old = true
		case r.state == committed && !old:
			r.seq, r.active = in.Seq, max(r.active, c.now-in.Idle)
			return schema.SyncVerdict{}, losers
		}
	}
	if old {
		return schema.SyncVerdict{Code: schema.CodeOldSeq}, losers
	}
	if i != 0 {
		d.drop(i) // overtaken by what is added now
	}
	if in.Order.Fence == d.fence {
		d.lastOrder = max(d.lastOrder, in.Order.N)
	}
	return c.enlist(o, in, losers)
}

// enlist adds a synced route, or the record that it was put out.
func (c *change) enlist(o uint32, in *schema.Route, losers []schema.Loser) (schema.SyncVerdict, []schema.Loser) {
	existing, records := c.visible()
	if len(existing) > 0 {
		own := *in
		own.Owner = c.d.owners[o].process
		beaten, by := c.match(existing, &own)
		if by != stay {
			i := c.add(o, in, superseded, c.now-in.Age, c.now)
			c.d.slab.at(i).loss = by
			return schema.SyncVerdict{Code: schema.CodeSuperseded, Close: by.close()}, losers
		}
		for _, b := range beaten {
			losers = append(losers, loser(&existing[b.index], b.by))
			c.supersede(records[b.index], b.by)
		}
	}
	c.add(o, in, committed, c.now-in.Age, c.now-in.Idle)
	return schema.SyncVerdict{}, losers
}

type beaten struct {
	index int
	by    cell
}

// match gives the routes that in puts out, or by what it is put out itself: by its own device
// rather than by another.
func (c *change) match(existing []schema.Route, in *schema.Route) (out []beaten, by cell) {
	for n := range existing {
		switch x, itLoses := c.d.settings.Policy.pair(&existing[n], in); {
		case x == stay:
		case itLoses:
			out = append(out, beaten{n, x})
		case by == stay || x < by:
			by = x
		}
	}
	return out, by
}

func loser(r *schema.Route, by cell) schema.Loser {
	return schema.Loser{UID: r.UID, Owner: r.Owner, Session: r.Session, Close: by.close()}
}

// losersAgain answers the retry of a sync: whoever is out by now is to be closed, by whomever.
func (c *change) losersAgain(losers []schema.Loser) []schema.Loser {
	for i := c.d.first(c.hash, c.uid); i != 0; i = c.d.slab.at(i).next {
		if r := c.d.slab.at(i); r.state == superseded {
			var out schema.Route
			c.d.route(r, c.now, &out)
			losers = append(losers, loser(&out, r.loss))
		}
	}
	return losers
}
