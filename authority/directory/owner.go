package directory

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// owner is one boot of a gateway. It is kept until the boot is gone, since its settled mark
// refuses what is no longer remembered; a mesh has few of them.
type owner struct {
	process schema.Process
	settled schema.OwnerSeq // below it no operation is open
	gone    bool            // counts for nothing; bounded passes free what it left
	until   time.Duration   // of one that is gone and has nothing left: remembered until then
	stand   ring            // its committed and pending records
	out     ring            // its other records
	outs    int             // how many
	unswept int             // how many of these have not been held against settled
	tallies []tally         // its committed routes by class
	routes  int             // the sum of the tallies
}

// tally counts the committed routes of one owner and class.
type tally struct {
	class uint32
	n     int
}

// sweepEach is how many records of an owner each of its operations holds against its settled
// mark. An operation leaves at most one, so what is kept stays in step with what is open.
const sweepEach = 4

// sender gives the owner that sent a request, and takes in its settled mark. ok is false where
// that boot is known to be gone. A new boot of a node ends the node's other boots.
func (d *Directory) sender(head schema.SlotHead) (o uint32, ok bool) {
	if head.From.IsZero() {
		return 0, false
	}
	o = d.process(head.From)
	if o == 0 {
		o = d.meet(head.From)
	}
	own := &d.owners[o]
	if own.gone {
		return 0, false
	}
	if head.Settled > own.settled {
		own.settled = head.Settled
		own.unswept = own.outs
	}
	d.sweep(o, sweepEach)
	return o, true
}

// process gives the owner of a process, 0 where it is unknown here.
func (d *Directory) process(p schema.Process) uint32 {
	if d.lastOwner != 0 && d.owners[d.lastOwner].process == p {
		return d.lastOwner
	}
	o := d.processes[p]
	if o != 0 {
		d.lastOwner = o
	}
	return o
}

func (d *Directory) meet(p schema.Process) uint32 {
	for o := range d.owners {
		if d.owners[o].process.Node == p.Node {
			d.lose(uint32(o))
		}
	}
	p = schema.Process{Node: schema.NodeID(strings.Clone(string(p.Node))), Boot: schema.BootID(strings.Clone(string(p.Boot)))}
	o := slices.IndexFunc(d.owners[1:], func(o owner) bool { return o.process.IsZero() }) + 1
	if o == 0 {
		o = len(d.owners)
		d.owners = append(d.owners, owner{})
	}
	d.owners[o].process = p
	d.processes[p] = uint32(o)
	return uint32(o)
}

// lose makes an owner count for nothing from now on.
func (d *Directory) lose(o uint32) {
	own := &d.owners[o]
	if own.gone || own.process.IsZero() {
		return
	}
	own.gone = true
	d.routes -= own.routes
	d.lost = append(d.lost, o)
}

// Owners gives the gateway boots that are known here and not known to be gone.
func (d *Directory) Owners() iter.Seq[schema.Process] {
	return func(yield func(schema.Process) bool) {
		for o := range d.owners {
			own := &d.owners[o]
			if !own.gone && !own.process.IsZero() && !yield(own.process) {
				return
			}
		}
	}
}

// Gone tells that a gateway boot is gone: what it owns counts for nothing from now on. It is freed
// here and in later passes, a bounded number at a time.
func (d *Directory) Gone(now time.Time, p schema.Process) []schema.Event {
	t := d.tick(now)
	if o := d.process(p); o != 0 {
		d.lose(o)
	}
	work := passWork
	return d.freeLost(t, &work, nil)
}

// freeLost frees what gone owners left, their tombstones and floors too: a boot never returns. The
// owner itself is remembered for a TTL more, so that a request which passed the worker just before
// its boot was known to be gone is not taken for that of a new boot, which would end the node's
// living one.
func (d *Directory) freeLost(t time.Duration, work *int, events []schema.Event) []schema.Event {
	for len(d.lost) > 0 && *work > 0 {
		o := d.lost[0]
		own := &d.owners[o]
		i := uint32(own.stand)
		if i == 0 {
			i = uint32(own.out)
		}
		if i == 0 {
			own.until = t + d.ttl
			d.lost, d.buried = d.lost[1:], append(d.buried, o)
			continue
		}
		*work--
		c := d.open(t, d.slab.at(i).uid()) // which frees it, and what else has ended of that uid
		events = c.close(events)
	}
	return events
}

// forget drops gone owners whose time is over.
func (d *Directory) forget(t time.Duration) {
	for len(d.buried) > 0 && d.owners[d.buried[0]].until <= t {
		own := &d.owners[d.buried[0]]
		delete(d.processes, own.process)
		*own = owner{}
		d.buried = d.buried[1:]
	}
}

// sweep holds at most n of an owner's records that are out against its settled mark, and drops
// those below it: a late duplicate is refused without them.
func (d *Directory) sweep(o uint32, n int) {
	own := &d.owners[o]
	for ; n > 0 && own.unswept > 0 && own.out != 0; n-- {
		own.unswept--
		i := uint32(own.out)
		if d.settled(d.slab.at(i)) {
			d.drop(i)
		} else {
			d.slab.turn(&own.out, byOwner)
		}
	}
}

// settled reports whether a record that is out need not be remembered any longer: what its session
// has sent is refused by the mark. A seq that equals the mark is not below it: it is kept, at most
// one an owner.
func (d *Directory) settled(r *record) bool {
	own := &d.owners[r.owner]
	return own.gone || r.state != superseded && r.seq < own.settled
}

// count changes the number of committed routes of an owner and class.
func (d *Directory) count(o, class uint32, by int) {
	own := &d.owners[o]
	at := slices.IndexFunc(own.tallies, func(t tally) bool { return t.class == class })
	if at < 0 {
		own.tallies = append(own.tallies, tally{class: class})
		at = len(own.tallies) - 1
	}
	own.tallies[at].n += by
	own.routes += by
	if !own.gone {
		d.routes += by
	}
	if own.tallies[at].n == 0 {
		own.tallies = slices.Delete(own.tallies, at, at+1)
	}
}

// Counts tells the sessions of each living gateway node by flag, in no order.
func (d *Directory) Counts() []schema.NodeCount {
	var counts []schema.NodeCount
	for o := range d.owners {
		own := &d.owners[o]
		if own.gone {
			continue
		}
		first := len(counts)
		for _, t := range own.tallies {
			flag := d.classes.list[t.class].flag
			at := slices.IndexFunc(counts[first:], func(n schema.NodeCount) bool { return n.Flag == flag })
			if at < 0 {
				at = len(counts) - first
				counts = append(counts, schema.NodeCount{Node: own.process.Node, Flag: flag})
			}
			counts[first+at].Sessions += t.n
		}
	}
	return counts
}
