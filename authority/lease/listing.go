package lease

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// listing is a snapshot of the bucket: every key as it stood when the bucket was at revision at. One
// that was written during the reading is in it more than once, the latest last.
type listing struct {
	entries []entry
	at      schema.Revision
	after   schema.Revision // all up to it was heard before the reading
	created time.Time       // of the stream
	now     time.Time       // by the server's clock, before the reading
}

// latest gives each key once, in the order of revisions.
func (l listing) latest() []entry {
	last := make(map[string]schema.Revision, len(l.entries))
	for _, e := range l.entries {
		last[e.key] = e.rev
	}
	return slices.DeleteFunc(slices.Clone(l.entries), func(e entry) bool { return last[e.key] != e.rev })
}

// install takes a listing. It decides every key that has not changed after it: also one that stood
// higher here, which means that a server lost what it had acknowledged. A stream made anew decides
// them all; again reports that, because a notice of the new stream may have been taken for old. fell
// reports that the log seems to have lost its tail.
func (t *table) install(l listing, now time.Time) (changes []Change, again, fell bool) {
	again = !t.created.IsZero() && !t.created.Equal(l.created)
	if again {
		t.seen.restart()
		l.after = 0
	}
	t.created = l.created
	if l.now.After(t.newest) {
		t.newest = l.now
	}
	named := make(map[string]bool, len(l.entries))
	for _, e := range l.latest() {
		named[e.key] = true
		force := again || t.held(e.key) <= l.at
		changes = append(changes, t.put(e, now, force)...)
	}
	for _, key := range t.keys() {
		if held := t.held(key); !named[key] && (again || held <= l.at) {
			if again {
				held = 0
			}
			changes = append(changes, t.drop(key, now, held)...)
		}
	}
	if fell = t.seen.snapshot(l.at, l.after); fell {
		t.doubt(l.at)
	}
	return changes, again, fell
}

// doubt takes that the log may have lost its tail behind end: that a gateway had no sessions counts no
// more where its key said so from there.
func (t *table) doubt(end schema.Revision) {
	for _, m := range t.members[Gateway] {
		if m.rev > end {
			m.value.Since = 0
		}
	}
}

// lose takes that the log has lost its tail behind end. What was heard from there stays, as a hint, but
// any news of these keys counts from now on.
func (t *table) lose(end schema.Revision) {
	t.doubt(end)
	t.configRev = min(t.configRev, end)
	for i := range t.slots {
		t.slots[i].lost = t.slots[i].lost || t.slots[i].rev > end
	}
	for _, members := range t.members {
		for _, m := range members {
			m.lost = m.lost || m.rev > end
		}
	}
}

// held is the revision of what is held of a key, or was before it went missing: up to it, what is
// heard is old news.
func (t *table) held(key string) schema.Revision {
	if s, ok := subjects.ParseSlotKey(key); ok {
		if t.slots[s].lost {
			return 0
		}
		return t.slots[s].rev
	}
	if key == subjects.ConfigKey {
		return t.configRev
	}
	kind, name := subjects.ParseKey(key)
	if m := t.members[Role(kind)][schema.NodeID(name)]; m != nil && !m.lost {
		return m.rev
	}
	return 0
}

// keys gives those of slots and processes that are held.
func (t *table) keys() []string {
	var out []string
	for i := range t.slots {
		if t.slots[i].state != absent {
			out = append(out, subjects.SlotKey(schema.Slot(i)))
		}
	}
	for _, r := range []Role{Authority, Gateway} {
		for _, m := range t.sorted(r) {
			out = append(out, r.key(m.node))
		}
	}
	return out
}

// drop notes that a key is not in the bucket; floor is the revision up to which news of it is old.
func (t *table) drop(key string, now time.Time, floor schema.Revision) []Change {
	if s, ok := subjects.ParseSlotKey(key); ok {
		return t.dropSlot(s, floor)
	}
	kind, name := subjects.ParseKey(key)
	if m := t.members[Role(kind)][schema.NodeID(name)]; m != nil {
		m.drop(now, floor)
	}
	return nil
}

// missed takes that a read found nothing under a key, unless the key was heard of meanwhile.
func (t *table) missed(key string, before schema.Revision, now time.Time) []Change {
	if t.held(key) != before {
		return nil
	}
	return t.drop(key, now, before)
}
