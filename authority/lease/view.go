package lease

import (
	"log/slog"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// View is what the bucket says, as far as heard: hints to act on, while only a compare-and-swap
// decides. Run keeps it; everything else may be called from any goroutine.
type View struct {
	// static
	b     *Bucket
	log   *slog.Logger
	ready chan struct{} // closed by Run after the first snapshot

	inbox   chan update     // what Run is to take into the table; unbuffered, senders wait for it
	stale   chan struct{}   // a snapshot is wanted; one place: a second wish changes nothing
	refresh chan chan error // callers of Refresh, who wait

	mu sync.RWMutex // guards table; Run alone writes, but for Saw and Claimed
	t  *table

	subsMu sync.Mutex
	subs   []*func(Change)

	reads flights
}

// update is a change of the table by Run's goroutine; done is closed when it is made and told.
type update struct {
	apply func(t *table, now time.Time) []Change
	done  chan struct{}
}

// NewView makes a view that knows nothing yet. log may be nil.
func NewView(b *Bucket, log *slog.Logger) *View {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &View{
		b: b, log: log, t: newTable(b.Config()),
		ready:   make(chan struct{}),
		inbox:   make(chan update),
		stale:   make(chan struct{}, 1),
		refresh: make(chan chan error),
		reads:   flights{of: map[string]*flight{}},
	}
}

// Ready is closed after the first snapshot.
func (v *View) Ready() <-chan struct{} { return v.ready }

// Config is the mesh's settings: policy, limits, what becomes of events and whether clients watch
// follow the bucket, the rest is as it was at Open.
func (v *View) Config() schema.Config {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.config
}

// Target gives who serves a slot by the slot's key; false when there is no key, or its owner is
// known to be gone.
func (v *View) Target(s schema.Slot) (schema.Target, bool) {
	t, _, ok := v.Address(s)
	return t, ok
}

// Address gives what a slot's key says, which is what a claim must name, and the highest fence seen of
// the slot, in one step, as requests carry them; ok is Target's. The highest is above the target's own when a message has told of a later owner.
func (v *View) Address(s schema.Slot) (t schema.Target, highest schema.Revision, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.target(s), v.t.highest[s], v.t.slots[s].owned
}

// Highest is the highest fence ever seen of a slot, from its key and from messages; one more where the
// key was seen with two owners at it.
func (v *View) Highest(s schema.Slot) schema.Revision {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.highest[s]
}

// Top is the highest revision that any key has shown, in this bucket or one before.
func (v *View) Top() schema.Revision {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.top
}

// farAhead bounds fences believed from messages: bucket revisions begin at the unix milliseconds
// of its creation, and one ten years ahead of the clock is no revision.
const farAhead = 10 * 365 * 24 * time.Hour

// MostAhead is how far above all revisions that its keys have shown a bucket may be believed to be, by a
// message alone: the tail that a log has lost is no longer, and a reader is not further behind.
const MostAhead = 100_000

// Saw takes a fence that a message named, and reports whether it is believed. One more than MostAhead
// above what the keys have shown is not: who means it reads the slot's key. In a young bucket, which may
// have begun below the one before it, only one more than ten years above the unix milliseconds is not.
func (v *View) Saw(s schema.Slot, fence schema.Revision) bool {
	if v.Highest(s) >= fence {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	most := v.t.top + MostAhead
	if v.t.young() {
		most = schema.Revision(time.Now().Add(farAhead).UnixMilli())
	}
	if fence > most {
		return false
	}
	v.t.saw(s, fence)
	return true
}

// Claimed takes that a slot's key has been written with that owner at that revision, which need not have
// been heard of yet, and gives the highest fence seen of the slot. It is above the target's own where
// nobody may hold the slot at that: a later one is known, or another owner had it at the same.
func (v *View) Claimed(by schema.Target) (highest schema.Revision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.t.claimed(by)
	return v.t.highest[by.Slot]
}

// Standing tells what is known of one life of a process.
func (v *View) Standing(r Role, p schema.Process) Standing {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if m := v.t.members[r][p.Node]; m != nil {
		return m.standing(p.Boot)
	}
	return Unseen
}

// Life is Standing, with what the key says of a life that is Living.
func (v *View) Life(r Role, p schema.Process) (Standing, schema.ProcessValue) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	m := v.t.members[r][p.Node]
	if m == nil {
		return Unseen, schema.ProcessValue{}
	}
	if s := m.standing(p.Boot); s != Living {
		return s, schema.ProcessValue{}
	}
	return Living, m.value
}

// Members gives the processes of a role whose keys are in the bucket, by name, dead ones too. Of a key
// that somebody has deleted there is a marker: it counts as dead, with the last boot heard of, if any.
func (v *View) Members(r Role) []Member {
	v.mu.RLock()
	defer v.mu.RUnlock()
	now := time.Now()
	var out []Member
	for _, m := range v.t.sorted(r) {
		if m.state == absent {
			continue
		}
		value := m.value
		if m.state == deleted {
			value.State = schema.StateDead
		}
		out = append(out, Member{
			Role: r, Process: schema.Process{Node: m.node, Boot: m.value.Boot}, Value: value,
			Revision: m.rev, Quiet: v.b.reach.quiet(m.changed, now),
		})
	}
	return out
}

// Missing gives the processes of a role whose keys were in the bucket and are not any more, by name, as when
// it was deleted. For a lease that ends nobody's life: they may write them again, under other boots.
func (v *View) Missing(r Role) []schema.Process {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []schema.Process
	for _, m := range v.t.sorted(r) {
		if m.state == absent && m.value.Boot != "" && m.standing(m.value.Boot) == Living {
			out = append(out, schema.Process{Node: m.node, Boot: m.value.Boot})
		}
	}
	return out
}

// Revision is the highest revision up to which every change of the bucket has been heard; 0 before
// the first snapshot. It falls where the log is found to have lost its tail: to 0 until it is read
// anew, or to where it was found to end. A gateway puts it into its key's Since while it has no
// socket: it must read it before it sees that it has none.
func (v *View) Revision() schema.Revision {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.seen.head
}

// Subscribe has f called for each change from now on, one after the other, by Run's goroutine and
// with no lock held. f must not block: all of the view waits for it; above all it must not call
// Reread or Refresh, which wait for Run.
func (v *View) Subscribe(f func(Change)) (cancel func()) {
	v.subsMu.Lock()
	defer v.subsMu.Unlock()
	v.subs = append(v.subs[:len(v.subs):len(v.subs)], &f)
	return func() { v.unsubscribe(&f) }
}

func (v *View) unsubscribe(f *func(Change)) {
	v.subsMu.Lock()
	defer v.subsMu.Unlock()
	kept := make([]*func(Change), 0, len(v.subs))
	for _, s := range v.subs {
		if s != f {
			kept = append(kept, s)
		}
	}
	v.subs = kept
}

func (v *View) tell(changes []Change) {
	if len(changes) == 0 {
		return
	}
	v.subsMu.Lock()
	subs := v.subs
	v.subsMu.Unlock()
	for _, c := range changes {
		for _, f := range subs {
			(*f)(c)
		}
	}
}

// highestRevision is above all revisions ever seen, of keys and in messages.
func (v *View) highestRevision() schema.Revision {
	v.mu.RLock()
	defer v.mu.RUnlock()
	top := v.t.top
	for _, fence := range v.t.highest {
		top = max(top, fence)
	}
	return top
}
