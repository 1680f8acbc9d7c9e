package lease

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// listing is a snapshot of the bucket: every key as it stood when the bucket was at revision at.
type listing struct {
	entries []entry
	at      schema.Revision
	created time.Time // of the stream
	now     time.Time // by the server's clock, before the reading
}

// install takes a listing. It decides every key that has not changed after it: also one that stood
// higher here, which means that a server lost what it had acknowledged. A stream made anew decides
// them all; again reports that, because a notice of the new stream may have been taken for old.
func (t *table) install(l listing, now time.Time) (changes []Change, again bool) {
	again = !t.created.IsZero() && !t.created.Equal(l.created)
	if again {
		t.seen.restart()
	}
	t.created = l.created
	if l.now.After(t.newest) {
		t.newest = l.now
	}
	named := make(map[string]bool, len(l.entries))
	for _, e := range l.entries {
		named[e.key] = true
		force := again || t.held(e.key) <= l.at
		changes = append(changes, t.put(e, now, force)...)
	}
	t.drop(func(key string, rev schema.Revision) bool { return !named[key] && (again || rev <= l.at) }, now, &changes)
	t.seen.snapshot(l.at)
	return changes, again
}

// held is the revision of what is held of a key; 0 where it is nothing.
func (t *table) held(key string) schema.Revision {
	if s, ok := subjects.ParseSlotKey(key); ok {
		return t.slots[s].rev
	}
	if key == subjects.ConfigKey {
		return t.configRev
	}
	kind, name := subjects.ParseKey(key)
	if m := t.members[Role(kind)][schema.NodeID(name)]; m != nil && m.state != absent {
		return m.rev
	}
	return 0
}

// drop notes the keys that are missing from a listing.
func (t *table) drop(missing func(key string, rev schema.Revision) bool, now time.Time, changes *[]Change) {
	for i := range t.slots {
		s := schema.Slot(i)
		if missing(subjects.SlotKey(s), t.slots[i].rev) {
			*changes = append(*changes, t.dropSlot(s)...)
		}
	}
	for role, members := range t.members {
		for node, m := range members {
			if missing(role.key(node), m.rev) {
				t.dropMember(m, now)
			}
		}
	}
}

// missed takes that a read found nothing under a key, unless the key was heard of meanwhile.
func (t *table) missed(key string, before schema.Revision, now time.Time) []Change {
	if t.held(key) != before {
		return nil
	}
	if s, ok := subjects.ParseSlotKey(key); ok {
		return t.dropSlot(s)
	}
	kind, name := subjects.ParseKey(key)
	if m := t.members[Role(kind)][schema.NodeID(name)]; m != nil {
		t.dropMember(m, now)
	}
	return nil
}
