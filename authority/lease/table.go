package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// table is what the bucket says, as far as heard. It is pure: now is passed in, and what changed
// comes out.
type table struct {
	config    schema.Config
	configRev schema.Revision

	members map[Role]map[schema.NodeID]*member
	slots   [schema.Slots]slot

	// highest is the highest fence ever seen of each slot, from keys and from messages. It never
	// falls, also when a server has lost revisions or the bucket is another.
	highest [schema.Slots]schema.Revision
	holder  [schema.Slots]schema.Process // who stood in the key at highest; nobody where only messages told of it
	top     schema.Revision              // the highest revision ever seen of any key

	created time.Time // the stream's creation, by the last snapshot: another one is another bucket
	seen    progress

	configured time.Time // when config was written, by the server's clock
	heard      time.Time // when that was heard of here, by our clock
	newest     time.Time // the newest of the server's times heard, with a snapshot or a read
}

func newTable(c schema.Config) *table {
	return &table{
		config:  c,
		members: map[Role]map[schema.NodeID]*member{Authority: {}, Gateway: {}},
	}
}

// slot is a slot's key.
type slot struct {
	state keyState
	rev   schema.Revision // of what is held here, or was before it went missing; 0 = never seen
	lost  bool            // that was in a tail which the log has lost
	owner schema.Process  // of a written key; nobody where its value is none of ours
	owned bool            // it has an owner, who is not known to be gone
}

// keyState is what is known of a key.
type keyState uint8

const (
	absent  keyState = iota // the bucket holds nothing under it: never written, or the bucket was lost
	deleted                 // a delete marker
	written                 // a value
)

// Change is one thing that a View has learnt. Exactly one field is set.
type Change struct {
	Slot    *SlotChange
	Process *ProcessChange
	Config  *schema.Config
}

// SlotChange says that View.Target of a slot gives something else than before.
type SlotChange struct {
	Target schema.Target // Slot always; the rest as the key says, also when not owned
	Owned  bool
}

// ProcessChange says that a life of a process came, changed its state, or ended. Renewals that
// change no state are not told.
type ProcessChange struct {
	Role     Role
	Process  schema.Process
	Standing Standing
	Value    schema.ProcessValue // as the key last said
}

// put takes what a key says now. A revision below the one held is old news, unless force says that
// the bucket itself went back.
func (t *table) put(e entry, now time.Time, force bool) []Change {
	t.top = max(t.top, e.rev)
	if e.at.After(t.newest) {
		t.newest = e.at
	}
	kind, name := subjects.ParseKey(e.key)
	switch {
	case e.key == subjects.ConfigKey:
		return t.putConfig(e, now, force)
	case kind == subjects.SlotKeys:
		return t.putSlot(e, now, force)
	case kind == subjects.AuthorityKeys || kind == subjects.GatewayKeys:
		return t.putMember(Role(kind), schema.NodeID(name), e, now, force)
	}
	return nil
}

// putConfig takes what running processes follow: policy, limits, what becomes of events, and whether
// clients watch. Slots and format never change, and a process keeps the times with which it started.
func (t *table) putConfig(e entry, now time.Time, force bool) []Change {
	c, err := decodeConfig(e)
	if e.rev <= t.configRev && !force || e.marker || err != nil || c.Check() != nil {
		return nil
	}
	if e.rev != t.configRev {
		t.configRev, t.heard = e.rev, now
	}
	if !e.at.IsZero() {
		t.configured = e.at
	}
	next := t.config
	next.Policy, next.MaxSessions, next.GraceMS = c.Policy, c.MaxSessions, c.GraceMS
	next.Events, next.LastSeen, next.WatchOff = c.Events, c.LastSeen, c.WatchOff
	if next == t.config {
		return nil
	}
	t.config = next
	return []Change{{Config: &next}}
}

func (t *table) putSlot(e entry, now time.Time, force bool) []Change {
	s, ok := subjects.ParseSlotKey(e.key)
	if !ok || e.rev <= t.slots[s].rev && !t.slots[s].lost && !force {
		return nil
	}
	next := slot{state: deleted, rev: e.rev}
	if !e.marker {
		next.state = written
		next.owner, _ = slotOwner(e)
	}
	if !next.owner.IsZero() {
		t.claimed(schema.Target{Slot: s, Fence: e.rev, Authority: next.owner})
		t.memberOf(Authority, next.owner.Node, now) // if its key is absent, its lease runs from now on
	}
	return t.setSlot(s, next)
}

// claimed takes that a slot's key names an owner at a fence. One that has had another owner is given out
// a second time, by a log that has lost its tail: nobody may hold it, and the highest is one more.
func (t *table) claimed(by schema.Target) {
	highest, holder := &t.highest[by.Slot], &t.holder[by.Slot]
	switch {
	case by.Fence > *highest, by.Fence == *highest && holder.IsZero():
		*highest, *holder = by.Fence, by.Authority
	case by.Fence == *highest && *holder != by.Authority:
		t.saw(by.Slot, by.Fence+1)
	}
}

// saw takes a fence of which it is not known who held it.
func (t *table) saw(s schema.Slot, fence schema.Revision) {
	if fence > t.highest[s] {
		t.highest[s], t.holder[s] = fence, schema.Process{}
	}
}

// setSlot is the one place where a slot changes.
func (t *table) setSlot(s schema.Slot, next slot) []Change {
	next.owned = !next.owner.IsZero() && !t.ownerGone(next)
	before := t.target(s)
	owned := t.slots[s].owned
	t.slots[s] = next
	if owned == next.owned && before == t.target(s) {
		return nil
	}
	return []Change{{Slot: &SlotChange{Target: t.target(s), Owned: next.owned}}}
}

// target gives what a slot's key says; the slot alone where there is no key.
func (t *table) target(s schema.Slot) schema.Target {
	if t.slots[s].state == absent {
		return schema.Target{Slot: s}
	}
	return schema.Target{Slot: s, Fence: t.slots[s].rev, Authority: t.slots[s].owner}
}

// ownerGone reports whether a slot's owner is known to be gone. A process takes its key before it
// claims, so another boot written after the claim is a later one.
func (t *table) ownerGone(s slot) bool {
	m := t.members[Authority][s.owner.Node]
	if m == nil {
		return false
	}
	switch m.standing(s.owner.Boot) {
	case Gone:
		return true
	case Living:
		return false
	}
	return m.state != absent && m.rev > s.rev && !m.lost
}

// dropSlot notes that a slot's key is not in the bucket; floor is the revision that is old news.
func (t *table) dropSlot(s schema.Slot, floor schema.Revision) []Change {
	return t.setSlot(s, slot{rev: floor})
}

// judgeSlots computes again which slots of a node are owned.
func (t *table) judgeSlots(n schema.NodeID) []Change {
	var changes []Change
	for i := range t.slots {
		if t.slots[i].owner.Node == n {
			changes = append(changes, t.setSlot(schema.Slot(i), t.slots[i])...)
		}
	}
	return changes
}

// sorted gives a role's members by name.
func (t *table) sorted(r Role) []*member {
	out := make([]*member, 0, len(t.members[r]))
	for _, m := range t.members[r] {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.node, b.node) })
	return out
}
