package directory

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Commit makes a pending login visible after the routes in its way have ended, and takes these
// out. The conflicts are computed again: one that the token has not named, or of whose end nothing
// was said, is answered CodeConflict under the same token. An end that is claimed without proof
// before its time is answered CodeBusy and RetryAfter. The commit of a committed route is answered
// CodeOK and its order; a token that names no pending login CodeDeadToken.
func (d *Directory) Commit(now time.Time, head schema.SlotHead, e schema.CommitEntry) (schema.LoginResult, []schema.Event) {
	o, ok := d.sender(head)
	if !ok {
		return schema.LoginResult{Code: schema.CodeRetry}, nil
	}
	c := d.open(d.tick(now), e.UID)
	res := c.commit(o, &e)
	d.refusals.note(&c, d.owners[o].process, e.Session, &res)
	return res, c.close(nil)
}

func (c *change) commit(o uint32, e *schema.CommitEntry) schema.LoginResult {
	d := c.d
	i := d.find(o, e.Session, c.uid)
	if i == 0 {
		return schema.LoginResult{Code: schema.CodeDeadToken}
	}
	r := d.slab.at(i)
	switch {
	case r.state == superseded:
		return putOut(r)
	case r.state == committed:
		return schema.LoginResult{Code: schema.CodeOK, Order: r.order}
	case r.state != pending || d.pendings[i].token != e.Token:
		return schema.LoginResult{Code: schema.CodeDeadToken}
	}
	d.pendings[i].hear(e.Ends)
	verdict, all := c.judge(i)
	if verdict != Admit {
		return c.refuse(i, verdict)
	}
	if res := c.unended(i, all); res.Code != schema.CodeOK {
		return res
	}
	in := c.candidate(i)
	for n := range all {
		c.takeOut(&all[n], &in)
	}
	r.order = d.nextOrder()
	c.become(i, committed)
	return schema.LoginResult{Code: schema.CodeOK, Order: r.order}
}

// unended answers a commit that comes too early.
func (c *change) unended(i uint32, all []standing) schema.LoginResult {
	var wait time.Duration
	for n := range all {
		s := &all[n]
		switch {
		case s.over():
		case s.ending == nil || s.ending.how == 0:
			return c.conflict(i, all)
		default:
			wait = max(wait, s.forced)
		}
	}
	if wait > 0 {
		return schema.LoginResult{Code: schema.CodeBusy, RetryAfter: wait}
	}
	return schema.LoginResult{}
}

// takeOut removes a route whose conflict has ended. An owner that answered has sealed it and will
// unregister it; of any other nobody knows whether it lives on, so it is told whenever it asks.
func (c *change) takeOut(s *standing, in *Candidate) {
	if s.ending.how != schema.EndAnswered {
		c.supersede(s.record, s.by)
		return
	}
	if s.by == replace && !in.resumes(s.route) {
		c.d.damper.count(c.d.device(&in.Route), c.now)
	}
	c.end(s.record, floor, lossReasons[s.by])
}
