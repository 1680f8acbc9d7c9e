package schema

import "time"

// Lookup asks one authority process for the routes of many uids, of many slots at once.
type Lookup struct {
	Groups []LookupGroup
	UIDs   []UID // those of the first group, then those of the second, ...; at most MaxLookup
}

// LookupGroup is one slot of a look-up: it checks its own target and spoils no other.
type LookupGroup struct {
	Target Target
	Seen   Revision
	Count  uint32 // of UIDs
}

// MaxLookup bounds the uids of one look-up to one authority.
const MaxLookup = 10_000

// maxRoutes bounds the routes of one look-up's answer; its bytes bound them further.
const maxRoutes = 1 << 20

// MaxLookupBytes is where an answer stops: the asker then asks for the rest.
const MaxLookupBytes = 512 << 10

// Kind is KindLookup.
func (*Lookup) Kind() Kind { return KindLookup }

func (m *Lookup) fields(c *coder) {
	c.columns("look-up", func(col *columns) {
		g := &m.Groups
		rows(col, g, Slots, 3)
		n := len(*g)
		col.targets(n, func(i int) *Target { return &(*g)[i].Target })
		deltas(col, n, func(i int) *Revision { return &(*g)[i].Seen })
		numbers(col, n, func(i int) *uint32 { return &(*g)[i].Count })
		rows(col, &m.UIDs, MaxLookup, 2)
		col.uids(len(m.UIDs), func(i int) *UID { return &m.UIDs[i] })
		col.sum(len(m.UIDs), n, func(i int) uint32 { return (*g)[i].Count })
	})
}

func (c *columns) targets(n int, at func(i int) *Target) {
	numbers(c, n, func(i int) *Slot { return &at(i).Slot })
	deltas(c, n, func(i int) *Revision { return &at(i).Fence })
	c.processes(n, func(i int) *Process { return &at(i).Authority })
	for i := range n {
		if at(i).Slot >= Slots {
			c.keep(errRange)
		}
	}
}

// LookupAnswer answers a look-up group by group, as far as it fits.
type LookupAnswer struct {
	ProcessHead
	Groups []GroupAnswer
	Counts []uint32 // routes of each uid answered; fewer than the uids asked: ask for the rest
	Routes []Route  // those of the first uid, then those of the second, ...
}

// GroupAnswer says how one group of a look-up was answered. The uids of a group whose code is not
// CodeOK have no routes.
type GroupAnswer struct {
	Code       Code
	Target     Target // who answers, as it holds the slot
	Differs    string // with CodeMismatch: the field of the group's target that differs
	Owner      Target // with CodeMismatch and CodeMoved: the owner known there, zero if none
	Seen       Revision
	RetryAfter time.Duration // where a wait is asked for, ms on the wire
	Rebuilding bool          // some gateway is still outstanding: a uid without routes is unknown
	Suspect    bool          // the answering authority has no proof of its lease
	Stamp      Stamp
}

// Kind is KindLookupAnswer.
func (*LookupAnswer) Kind() Kind { return KindLookupAnswer }

func (m *LookupAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	c.columns("look-up answer", func(col *columns) {
		col.groupAnswers(&m.Groups)
		rows(col, &m.Counts, MaxLookup, 1)
		numbers(col, len(m.Counts), func(i int) *uint32 { return &m.Counts[i] })
		r := &m.Routes
		rows(col, r, maxRoutes, routeWidth+1)
		n := len(*r)
		col.processes(n, func(i int) *Process { return &(*r)[i].Owner })
		col.routes(*r)
		durations(col, n, time.Millisecond, func(i int) *time.Duration { return &(*r)[i].TTL })
		col.sum(n, len(m.Counts), func(i int) uint32 { return m.Counts[i] })
	})
}

// groupWidth is how many bytes a row of group answers takes at least.
const groupWidth = 11

const (
	groupRebuilding = 1 << iota
	groupSuspect
)

func (c *columns) groupAnswers(g *[]GroupAnswer) {
	rows(c, g, Slots, groupWidth)
	n := len(*g)
	at := func(i int) *GroupAnswer { return &(*g)[i] }
	c.codes(n, func(i int) *Code { return &at(i).Code })
	c.targets(n, func(i int) *Target { return &at(i).Target })
	texts(c, n, maxDiffers, func(i int) *string { return &at(i).Differs })
	c.targets(n, func(i int) *Target { return &at(i).Owner })
	deltas(c, n, func(i int) *Revision { return &at(i).Seen })
	durations(c, n, time.Millisecond, func(i int) *time.Duration { return &at(i).RetryAfter })
	deltas(c, n, func(i int) *Revision { return &at(i).Stamp.Fence })
	deltas(c, n, func(i int) *uint64 { return &at(i).Stamp.K })
	flags := make([]uint8, n)
	for i := range flags {
		flags[i] = bits(at(i).Rebuilding, groupRebuilding) | bits(at(i).Suspect, groupSuspect)
	}
	numbers(c, n, func(i int) *uint8 { return &flags[i] })
	for i := 0; i < n && !c.writing; i++ {
		at(i).Rebuilding, at(i).Suspect = flags[i]&groupRebuilding != 0, flags[i]&groupSuspect != 0
	}
}

func bits(on bool, bit uint8) uint8 {
	if on {
		return bit
	}
	return 0
}
