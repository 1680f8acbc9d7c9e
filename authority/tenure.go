package authority

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// tenure is one slot held under one fence: it ends with the fence and never returns.
type tenure struct {
	// static
	target schema.Target
	sub    *nats.Subscription
	since  time.Time
	cause  schema.SlotCause

	mu      sync.Mutex
	ended   bool // the slot is another's, or nobody's: nothing is answered from here any more
	handing bool // a successor may stand in the slot's key by now: what must be decided once is not decided here
	dir     *directory.Directory
	rebuild rebuild
}

// rebuild says what a tenure still waits for before it knows that a uid without routes is offline.
type rebuild struct {
	listed      bool                        // the gateways have been read from the bucket, after the claim
	outstanding map[schema.Process]struct{} // gateways that may have sessions of the slot and have not sent their last chunk
	synced      map[schema.Process]struct{} // gateways that have; the living ones
	notBefore   time.Time                   // in a young bucket: gateways have yet to write their keys
	bound       time.Time                   // from here on events are published, whoever is outstanding
	published   bool                        // events are
}

func newTenure(target schema.Target, dir *directory.Directory, now, bound time.Time) *tenure {
	dir.Rebuilding(true)
	return &tenure{target: target, dir: dir, since: now, rebuild: rebuild{
		outstanding: map[schema.Process]struct{}{},
		synced:      map[schema.Process]struct{}{},
		bound:       bound,
	}}
}

// deposedBy reports whether what the slot's key says, as far as heard, ends the tenure. An older fence,
// or no key at all, is old news until the bucket has been read after the claim. Later it is not: the
// key was deleted, or a server has lost the tail of its log, and nobody else need ever claim the slot.
func (t *tenure) deposedBy(key schema.Target) bool {
	if key == t.target || key.Fence >= t.target.Fence {
		return key != t.target
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rebuild.listed
}

// unknownLocked reports whether a uid without routes is unknown rather than offline.
func (t *tenure) unknownLocked(now time.Time) bool {
	r := &t.rebuild
	return !r.listed || len(r.outstanding) > 0 || now.Before(r.notBefore)
}

// await takes which gateways live, once the bucket has been read after the claim. In a young bucket
// they have yet to write their keys: there nothing is known before notBefore.
func (t *tenure) await(gateways []lease.Member, notBefore time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.rebuild.listed = true
	t.rebuild.notBefore = notBefore
	for _, g := range gateways {
		t.meetLocked(g.Process, g.Value.Since, t.rebuild.bound)
	}
}

// meetLocked takes that a gateway lives. It is awaited until it has told of its sessions, unless it
// had none when the fence was already known to it, as a reading of its key after the claim shows: one
// from before may be of a tail that the log has lost. One that comes later has taken over the sockets
// of an earlier life, whose routes count for nothing from now on: the slot is rebuilt once more,
// until bound for the events, so that nobody is said to be offline meanwhile.
func (t *tenure) meetLocked(g schema.Process, since schema.Revision, bound time.Time) {
	r := &t.rebuild
	if r.listed && since >= t.target.Fence {
		t.syncedLocked(g) // for good: that its key may forget it changes nothing here
		return
	}
	_, synced := r.synced[g]
	_, awaited := r.outstanding[g]
	if synced || awaited {
		return
	}
	r.outstanding[g] = struct{}{}
	if r.published {
		r.published, r.bound = false, bound
		t.dir.Rebuilding(true)
	}
}

// syncedLocked notes that a gateway has sent its last chunk.
func (t *tenure) syncedLocked(g schema.Process) {
	t.rebuild.synced[g] = struct{}{}
	delete(t.rebuild.outstanding, g)
}

// settleLocked ends the rebuild when nothing is awaited any more, or its bound is reached: it
// returns the event that tells watchers to look up again.
func (t *tenure) settleLocked(now time.Time) []schema.Event {
	r := &t.rebuild
	if r.published || t.unknownLocked(now) && now.Before(r.bound) {
		return nil
	}
	r.published = true
	t.dir.Rebuilding(false)
	return []schema.Event{t.rebuiltLocked()}
}

// rebuiltLocked tells watchers to look up again.
func (t *tenure) rebuiltLocked() schema.Event {
	return schema.Event{Type: schema.EventRebuilt, Slot: t.target.Slot, Stamp: t.dir.Stamp()}
}

// again gives the event that has watchers look up again, of whom some may have missed what they were
// told; false where they will be told so anyway.
func (t *tenure) again() (e schema.Event, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || !t.rebuild.published {
		return e, false
	}
	return t.rebuiltLocked(), true
}

// stateLocked is what the tenure can answer.
func (t *tenure) stateLocked(now time.Time) schema.SlotState {
	if t.unknownLocked(now) {
		return schema.SlotRebuilding
	}
	return schema.SlotReady
}

// gateways are what a tenure is told of them at its upkeep.
type gateways struct {
	living func() []lease.Member     // as they are now
	before []lease.Member            // as they were when the pass began
	gone   func(schema.Process) bool // of one that has lived: it does not any more, also where the view has forgotten it since
	bound  time.Duration             // of a rebuild
}

// upkeep does what falls due with time: pendings and routes that expire, routes of gateways that
// are gone, and the end of a rebuild. Each pass is bounded; more reports that one is due at once.
func (t *tenure) upkeep(now time.Time, of gateways, emit func([]schema.Event)) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	lost := t.lostLocked(of.gone)
	living := of.before
	if len(lost) > 0 { // whoever has taken over their sockets is met before their routes go
		living = of.living()
	}
	for _, g := range living {
		t.meetLocked(g.Process, g.Value.Since, now.Add(of.bound))
	}
	for _, g := range lost {
		emit(t.dir.Gone(now, g))
	}
	t.forgetLocked(of.gone)
	events, more := t.dir.Expire(now)
	emit(events)
	emit(t.settleLocked(now))
	return more
}

// lostLocked gives the owners of routes that are gone.
func (t *tenure) lostLocked(gone func(schema.Process) bool) (lost []schema.Process) {
	for g := range t.dir.Owners() {
		if gone(g) {
			lost = append(lost, g)
		}
	}
	return lost
}

// forgetLocked awaits nobody who is gone, and forgets that they have synced.
func (t *tenure) forgetLocked(gone func(schema.Process) bool) {
	for _, gateways := range [...]map[schema.Process]struct{}{t.rebuild.outstanding, t.rebuild.synced} {
		for g := range gateways {
			if gone(g) {
				delete(gateways, g)
			}
		}
	}
}

// unlisted reports whether it is not known yet which gateways are awaited.
func (t *tenure) unlisted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended && !t.rebuild.listed
}

func (t *tenure) configure(s directory.Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.dir.Configure(s)
	}
}

// hand notes that a successor is about to be written into the slot's key. It is never taken back: a
// write that was not answered may still come, and so the tenure ends by the key's next revision. False
// where it has ended, or is handed over already.
func (t *tenure) hand() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || t.handing {
		return false
	}
	t.handing = true
	return true
}

func (t *tenure) isHanding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handing
}

func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.dir = nil
}
