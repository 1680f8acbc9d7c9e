package lease

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// member is a process's key. The boots that it named before are remembered, since a view that is
// behind must not take a boot it has not heard of yet for one that is gone.
type member struct {
	role    Role
	node    schema.NodeID
	state   keyState
	rev     schema.Revision     // of what is held here, or was before it went missing
	lost    bool                // that was in a tail which the log has lost
	value   schema.ProcessValue // the last one written
	heard   schema.Revision     // that the key was last heard at; below rev after a server has lost its tail
	changed time.Time           // monotonic; when heard last changed, or the key was first missed
	gone    []schema.BootID     // at most maxGone, the latest last
}

// maxGone bounds the boots remembered of one node; one that fell out is Unseen again, and a leader
// read tells.
const maxGone = 32

func (m *member) standing(b schema.BootID) Standing {
	switch {
	case slices.Contains(m.gone, b):
		return Gone
	case m.value.Boot == b:
		return Living
	}
	return Unseen
}

func (m *member) bury(b schema.BootID) bool {
	if b == "" || slices.Contains(m.gone, b) {
		return false
	}
	if len(m.gone) == maxGone {
		m.gone = slices.Delete(m.gone, 0, 1)
	}
	m.gone = append(m.gone, b)
	return true
}

// memberOf gives a node's member, made on first mention.
func (t *table) memberOf(r Role, n schema.NodeID, now time.Time) *member {
	m := t.members[r][n]
	if m == nil {
		m = &member{role: r, node: n, changed: now}
		t.members[r][n] = m
	}
	return m
}

func (t *table) putMember(r Role, n schema.NodeID, e entry, now time.Time, force bool) []Change {
	if n.Check() != nil {
		return nil
	}
	m := t.memberOf(r, n, now)
	if e.rev != m.heard { // old news or not, it is written: who renews it lives
		m.heard, m.changed = e.rev, now
	}
	if e.rev <= m.rev && !m.lost && !force {
		return nil
	}
	before := *m
	m.rev, m.lost = e.rev, false
	value, ok := decodeProcess(e)
	if !ok {
		m.state = deleted
		return t.buried(m, before.value.Boot)
	}
	if before.value.Boot != value.Boot && before.standing(before.value.Boot) == Living && before.standing(value.Boot) == Gone {
		// A boot never returns: the log has lost its tail, and shows who stood here before. The one of now
		// lives until another succeeds it.
		m.state = written
		return nil
	}
	m.state, m.value = written, value
	var changes []Change
	if before.value.Boot != value.Boot {
		changes = append(changes, t.buried(m, before.value.Boot)...)
	}
	if value.State == schema.StateDead {
		return append(changes, t.buried(m, value.Boot)...)
	}
	if before.state != written || before.value.Boot != value.Boot || before.value.State != value.State {
		changes = append(changes, m.change(value.Boot, Living))
	}
	return append(changes, t.judgeOwner(m)...)
}

// buried notes that a boot of a node is gone, with what follows for its slots.
func (t *table) buried(m *member, b schema.BootID) []Change {
	var changes []Change
	if m.bury(b) {
		changes = append(changes, m.change(b, Gone))
	}
	return append(changes, t.judgeOwner(m)...)
}

func (t *table) judgeOwner(m *member) []Change {
	if m.role != Authority {
		return nil
	}
	return t.judgeSlots(m.node)
}

func (m *member) change(b schema.BootID, s Standing) Change {
	return Change{Process: &ProcessChange{Role: m.role, Process: schema.Process{Node: m.node, Boot: b}, Standing: s, Value: m.value}}
}

// drop notes that a process's key is not in the bucket, which by itself ends nobody's life;
// floor is the revision that is old news.
func (m *member) drop(now time.Time, floor schema.Revision) {
	if m.state != absent {
		m.state, m.changed = absent, now
	}
	m.rev, m.lost = floor, false
}

// expire ends the lives whose key has been absent for a whole lease, those too that only a slot's
// key names. A lease later it forgets the member, but not while a slot's key names the node: that the
// owner is gone must stay known. Its boots are Unseen from then on, as those of a node never heard of.
// quiet tells how long nothing was heard since a moment.
func (t *table) expire(quiet func(since time.Time) time.Duration) []Change {
	var changes []Change
	for _, r := range []Role{Authority, Gateway} {
		for _, m := range t.sorted(r) {
			if m.state != absent || quiet(m.changed) < t.config.Lease() {
				continue
			}
			owners := t.ownersOf(m)
			for _, b := range append(owners, m.value.Boot) {
				if b != "" && m.standing(b) != Gone {
					changes = append(changes, t.buried(m, b)...)
				}
			}
			if len(owners) == 0 && quiet(m.changed) >= 2*t.config.Lease() {
				delete(t.members[r], m.node)
			}
		}
	}
	return changes
}

// ownersOf gives the boots of a node that slots' keys name.
func (t *table) ownersOf(m *member) (boots []schema.BootID) {
	for i := range t.slots {
		if s := &t.slots[i]; m.role == Authority && s.owner.Node == m.node && !slices.Contains(boots, s.owner.Boot) {
			boots = append(boots, s.owner.Boot)
		}
	}
	return boots
}
