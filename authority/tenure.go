package authority

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/directory"
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
	dir     *directory.Directory
	rebuild rebuild
}

// rebuild says what a tenure still waits for before it knows that a uid without routes is offline.
type rebuild struct {
	listed      bool                        // outstanding has been read from the bucket, after the claim
	outstanding map[schema.Process]struct{} // gateways that may have sessions of the slot and have not sent their last chunk
	synced      map[schema.Process]struct{} // gateways that have
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

// await names the gateways whose sync is awaited, once the bucket has been read after the claim. In
// a young bucket gateways have yet to write their keys: there nothing is known before the bound.
func (t *tenure) await(gateways []schema.Process, young bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rebuild.listed = true
	if young {
		t.rebuild.notBefore = t.rebuild.bound
	}
	for _, g := range gateways {
		if _, done := t.rebuild.synced[g]; !done {
			t.rebuild.outstanding[g] = struct{}{}
		}
	}
}

// syncedLocked notes that a gateway has sent its last chunk, or is gone.
func (t *tenure) syncedLocked(g schema.Process) {
	if t.rebuild.synced != nil {
		t.rebuild.synced[g] = struct{}{}
	}
	delete(t.rebuild.outstanding, g)
}

// settleLocked ends the rebuild when nothing is awaited any more, or its bound is reached: it
// returns the event that tells watchers to look up again.
func (t *tenure) settleLocked(now time.Time) []schema.Event {
	r := &t.rebuild
	known := !t.unknownLocked(now)
	if known {
		r.synced = nil
	}
	if r.published || !known && now.Before(r.bound) {
		return nil
	}
	r.published = true
	t.dir.Rebuilding(false)
	return []schema.Event{{Type: schema.EventRebuilt, Slot: t.target.Slot, Stamp: t.dir.Stamp()}}
}

// stateLocked is what the tenure can answer.
func (t *tenure) stateLocked(now time.Time) schema.SlotState {
	if t.unknownLocked(now) {
		return schema.SlotRebuilding
	}
	return schema.SlotReady
}

// upkeep does what falls due with time: pendings and routes that expire, routes of gateways that
// are gone, and the end of a rebuild. Each pass is bounded; more reports that one is due at once.
func (t *tenure) upkeep(now time.Time, gone func(schema.Process) bool, emit func([]schema.Event)) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return false
	}
	for g := range t.dir.Owners() {
		if gone(g) {
			emit(t.dir.Gone(now, g))
		}
	}
	for g := range t.rebuild.outstanding {
		if gone(g) {
			t.syncedLocked(g)
		}
	}
	events, more := t.dir.Expire(now)
	emit(events)
	emit(t.settleLocked(now))
	return more
}

func (t *tenure) configure(s directory.Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.dir.Configure(s)
	}
}

func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.dir = nil
}
