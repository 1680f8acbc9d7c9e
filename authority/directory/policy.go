package directory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// cell is what a login does to one existing route.
type cell uint8

const (
	stay    cell = iota // the two live side by side
	replace             // the same device came back: the old route goes
	kick                // another login takes over: the old route goes
	reject              // the old route stands, and the login is refused
)

var cellNames = [...]string{"-", "replace", "kick", "reject"}

func (c cell) String() string { return cellNames[c] }

// close is the code with which the loser's socket is closed.
func (c cell) close() schema.CloseCode {
	switch c {
	case replace:
		return schema.CloseReplaced
	case kick:
		return schema.CloseKicked
	}
	return schema.CloseRefused
}

// relation is how a login stands to an existing route of the same uid: the columns of a policy.
type relation uint8

const (
	sameDevice  relation = iota // same flag and same device, or resumed
	otherDevice                 // same flag; the empty device id is always another
	otherFlag
	relations
)

// rows are a policy's cells by the level of the login.
type rows [schema.Master + 1][relations]cell

// policies is the README's table, and the presets beside it. Their reject_new forms differ
// in one thing: what would be kicked stands, and the login is refused. A device that comes back
// replaces itself under every policy, or its own ghost would lock it out.
var policies = map[string]rows{
	"levels": {
		schema.Slave:  {replace, stay, stay},
		schema.Master: {replace, kick, stay},
	},
	"single": {
		schema.Slave:  {replace, kick, kick},
		schema.Master: {replace, kick, kick},
	},
	"one_per_flag": {
		schema.Slave:  {replace, kick, stay},
		schema.Master: {replace, kick, stay},
	},
	"multi": {
		schema.Slave:  {replace, stay, stay},
		schema.Master: {replace, stay, stay},
	},
}

const (
	defaultPolicy = "levels"
	rejectNew     = "_reject_new"
)

// Policy says which of a uid's routes a login puts out, or that it is refused. The zero value is
// no policy; ParsePolicy gives one.
type Policy struct {
	name      string
	cells     rows
	rejectNew bool
}

// ParsePolicy reads a policy's name: levels, single, one_per_flag or multi, each also with
// "_reject_new" behind.
func ParsePolicy(name string) (Policy, error) {
	base, rejects := strings.CutSuffix(name, rejectNew)
	cells, ok := policies[base]
	if !ok {
		return Policy{}, fmt.Errorf("policy %q is none of %s, each also with %q behind",
			name, strings.Join(slices.Sorted(maps.Keys(policies)), ", "), rejectNew)
	}
	if rejects {
		cells = cells.rejecting()
	}
	return Policy{name, cells, rejects}, nil
}

func (r rows) rejecting() rows {
	for level := range r {
		for rel, c := range r[level] {
			if c == kick {
				r[level][rel] = reject
			}
		}
	}
	return r
}

func (p Policy) String() string { return p.name }

// Candidate is a login to be judged.
type Candidate struct {
	Route         schema.Route
	ResumeBoot    schema.BootID     // with ResumeSession: the client's previous session,
	ResumeSession schema.SessionNum // which counts as the same device
	MaxSessions   int               // of one uid; 0 is no limit
}

// resumes reports whether r is the very session that the login says it continues.
func (c *Candidate) resumes(r *schema.Route) bool {
	return c.ResumeBoot != "" && c.ResumeBoot == r.Owner.Boot && c.ResumeSession == r.Session
}

// Verdict is what a policy says to a login.
type Verdict uint8

// The verdicts.
const (
	Admit         Verdict = iota // once its removals have ended
	RefusedOlder                 // a conflicting route has a higher login generation
	RefusedPolicy                // a conflicting route stands
	RefusedMany                  // the uid has its most sessions, and the login ends none
)

var verdictWhy = [...]string{
	"admitted",
	"a newer login of this user stands",
	"this user is connected already, and the policy keeps the first",
	"this user has the most sessions allowed",
}

// String is a short English sentence, fit for a close reason.
func (v Verdict) String() string { return verdictWhy[v] }

// Removal is an existing route that has to end before a login is committed.
type Removal struct {
	Index int // among the existing routes
	Close schema.CloseCode
	by    cell
}

// Decide is the conflict policy: what becomes of a login, given the visible routes of its uid.
// Removals are given with Admit only.
func (p Policy) Decide(existing []schema.Route, in Candidate) (Verdict, []Removal) {
	var out []Removal
	verdict := Admit
	for i := range existing {
		old := &existing[i]
		if in.Route.Gen < old.Gen {
			// either way round, or the two would conflict when they are next synced
			if p.rivals(&Candidate{Route: *old}, &in) {
				return RefusedOlder, nil
			}
			continue
		}
		switch c := p.cell(old, &in); c {
		case stay:
		case reject:
			verdict = RefusedPolicy
		default:
			out = append(out, Removal{i, c.close(), c})
		}
	}
	if verdict != Admit {
		return verdict, nil
	}
	if in.MaxSessions > 0 && len(existing) >= in.MaxSessions && len(out) == 0 {
		return RefusedMany, nil
	}
	return Admit, out
}

func (p Policy) cell(old *schema.Route, in *Candidate) cell {
	return p.cells[in.Route.Level][relate(old, in)]
}

func relate(old *schema.Route, in *Candidate) relation {
	switch {
	case in.resumes(old):
		return sameDevice
	case old.Flag != in.Route.Flag:
		return otherFlag
	case old.SameDevice(&in.Route):
		return sameDevice
	}
	return otherDevice
}

// rivals reports whether either of two routes would put out or refuse the other, were it the login.
func (p Policy) rivals(a, b *Candidate) bool {
	return p.cell(&a.Route, b) != stay || p.cell(&b.Route, a) != stay
}

// pair judges two routes that both claim to stand, whatever the order in which they arrived: the
// lower in rank is held for the existing one and the higher for the login. It says whether the
// two conflict, by what, and which one loses.
func (p Policy) pair(a, b *schema.Route) (c cell, aLoses bool) {
	rank := cmp.Or(cmp.Compare(a.Gen, b.Gen), a.Order.Compare(b.Order))
	aLower := cmp.Or(rank, cmp.Compare(a.Owner.Boot, b.Owner.Boot), cmp.Compare(a.Session, b.Session)) < 0
	low, high := a, b
	if !aLower {
		low, high = b, a
	}
	c = p.cell(low, &Candidate{Route: *high})
	// of equal ranks the larger stands even where the first would be kept: none of them is first
	lowLoses := c != reject || rank == 0
	return c, lowLoses == aLower
}
