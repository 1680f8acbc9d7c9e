package directory

import (
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// login is what a pending record has beside its route.
type login struct {
	token         schema.CommitToken
	resumeBoot    schema.BootID
	resumeSession schema.SessionNum
	ends          []ending // the routes that its token has named
}

// ending is a route that stands in the way of a login, and how it is said to have ended.
type ending struct {
	owner   schema.Process
	session schema.SessionNum
	how     schema.Ending // 0: not yet
}

// ending finds what is said of a route, nil where the token has not named it.
func (l *login) ending(owner schema.Process, s schema.SessionNum) *ending {
	for n := range l.ends {
		if l.ends[n].session == s && l.ends[n].owner == owner {
			return &l.ends[n]
		}
	}
	return nil
}

// hear takes in how the routes named have ended; what the token has not named does not count.
// Proof is never taken back.
func (l *login) hear(ends []schema.End) {
	for _, said := range ends {
		e := l.ending(said.Owner, said.Session)
		if e != nil && (e.how == 0 || e.how == schema.EndForced) {
			e.how = said.How
		}
	}
}

// mostNamed bounds the routes that one answer names; the commit is told of the others.
const mostNamed = 512

// token stands for fence, identity and a random part; the identity's record keeps it.
func (d *Directory) token(s schema.SessionNum) schema.CommitToken {
	return schema.CommitToken(fmt.Sprintf("%x.%x.%x", uint64(d.fence), uint64(s), d.settings.Random()))
}

// candidate is a pending record as the policy sees it.
func (c *change) candidate(i uint32) Candidate {
	l := c.d.pendings[i]
	in := Candidate{ResumeBoot: l.resumeBoot, ResumeSession: l.resumeSession, MaxSessions: c.d.settings.MaxSessions}
	c.d.route(c.d.slab.at(i), c.now, &in.Route)
	return in
}

// standing is a route that a pending login has to see ended.
type standing struct {
	record uint32
	route  *schema.Route // good until the next operation
	by     cell
	ending *ending       // nil where the token has not named it
	forced time.Duration // until it may be taken as ended without proof
}

// over reports whether the route may be taken out.
func (s *standing) over() bool {
	return s.ending != nil && s.ending.how != 0 && (s.ending.how != schema.EndForced || s.forced == 0)
}

// judge holds a pending login against the routes that stand now.
func (c *change) judge(i uint32) (Verdict, []standing) {
	existing, records := c.visible()
	in := c.candidate(i)
	verdict, out := c.d.settings.Policy.Decide(existing, in)
	all := make([]standing, len(out))
	for n, x := range out {
		r := &existing[x.Index]
		all[n] = standing{
			record: records[x.Index],
			route:  r,
			by:     x.by,
			ending: c.d.pendings[i].ending(r.Owner, r.Session),
			forced: c.d.settings.Conflict,
		}
		if first, named := c.d.named[records[x.Index]]; named {
			all[n].forced = max(0, first+c.d.settings.Conflict-c.now)
		}
	}
	return verdict, all
}

// conflict answers a pending login with its token and the routes that still have to end. From
// the first time that any token names a route, the time runs after which it ends without proof.
func (c *change) conflict(i uint32, all []standing) schema.LoginResult {
	l := c.d.pendings[i]
	res := schema.LoginResult{Code: schema.CodeConflict, Token: l.token}
	for n := range all {
		s := &all[n]
		if s.over() {
			continue
		}
		if len(res.Conflicts) == mostNamed {
			break
		}
		if s.ending == nil {
			l.ends = append(l.ends, ending{owner: s.route.Owner, session: s.route.Session})
		}
		if _, named := c.d.named[s.record]; !named {
			c.d.named[s.record] = c.now
		}
		res.Conflicts = append(res.Conflicts, schema.Conflict{
			Owner: s.route.Owner, Session: s.route.Session, Device: s.route.Device,
			Close: s.by.close(), Forced: s.forced,
		})
	}
	return res
}
