package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// buckets is the span of the wheel in seconds: what ends later is looked at once on the way.
const buckets = 128

// passWork bounds one pass, in records: about a millisecond.
const passWork = 1024

// wheel holds the timed records in buckets of a second. A touch does not move a record: its
// bucket comes due, it is seen to live on, and is put where it ends by then.
type wheel struct {
	rings [buckets]ring
	due   int64 // the second whose bucket comes next
}

func second(t time.Duration) int64 { return int64(t / time.Second) }

// schedule hangs a record into the bucket of the second after its end. One that has not lapsed
// never goes into the bucket that turn empties: its end is not before now, and that is past.
func (d *Directory) schedule(i uint32) {
	r := d.slab.at(i)
	w := &d.wheel
	at := min(max(second(d.ends(r))+1, w.due), w.due+buckets-1)
	r.bucket = uint8(at % buckets)
	d.slab.push(&w.rings[r.bucket], byTime, i)
}

func (d *Directory) unschedule(i uint32) {
	d.slab.pull(&d.wheel.rings[d.slab.at(i).bucket], byTime, i)
}

// Expire does a bounded part of what is due: it frees what gone owners left, ends what has lapsed,
// tells of those who have not come back in their grace, and drops tombstones and floors that are
// settled. More says that it should be called again soon;
// otherwise once a second will do.
func (d *Directory) Expire(now time.Time) (events []schema.Event, more bool) {
	t := d.tick(now)
	work := passWork
	events = d.freeLost(t, &work, nil)
	d.forget(t)
	events = d.turn(t, &work, events)
	events = d.overdue(t, &work, events)
	d.sweepAll(&work)
	d.damper.expire(t)
	return events, work <= 0
}

// turn empties the buckets that are due.
func (d *Directory) turn(now time.Duration, work *int, events []schema.Event) []schema.Event {
	w := &d.wheel
	w.due = max(w.due, second(now)-buckets+1) // after a long rest every bucket is due, each once
	for w.due <= second(now) {
		r := &w.rings[w.due%buckets]
		for ; *r != 0; *work-- {
			if *work <= 0 {
				return events
			}
			i := uint32(*r)
			if rec := d.slab.at(i); !d.lapsed(rec, now) {
				d.unschedule(i)
				d.schedule(i)
				continue
			}
			c := d.open(now, d.slab.at(i).uid()) // which ends it
			events = c.close(events)
		}
		w.due++
	}
	return events
}

func (d *Directory) sweepAll(work *int) {
	for o := range d.owners {
		n := min(d.owners[o].unswept, *work)
		d.sweep(uint32(o), n)
		*work -= n
	}
}
