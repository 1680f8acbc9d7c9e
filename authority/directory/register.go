package directory

import (
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// retryRebuild is told to logins that wait for the end of a rebuild.
const retryRebuild = 500 * time.Millisecond

// Register asks for a route. CodeOK: it is visible, under Order. CodeConflict: it is pending under
// Token, and the routes named have to end; then Commit. Otherwise nothing was done: CodeRetry (the
// boot is known to be gone), CodeOldSeq, CodeSuperseded, CodeRefused, CodeDamped, or CodeBusy:
// another device's login is under way that cannot stand beside this one; it ends in a moment, and
// no RetryAfter is told, so that the asker's own backoff finds that moment. CodeBad: a uid that is
// none.
func (d *Directory) Register(now time.Time, head schema.SlotHead, l schema.Login) (schema.LoginResult, []schema.Event) {
	o, ok := d.sender(head)
	if !ok {
		return schema.LoginResult{Code: schema.CodeRetry}, nil
	}
	if !fits(l.Route.UID) {
		return schema.LoginResult{Code: schema.CodeBad, Why: "uid of a wrong length"}, nil
	}
	c := d.open(d.tick(now), l.Route.UID)
	res := c.register(o, &l)
	d.refusals.note(&c, d.owners[o].process, l.Route.Session, &res)
	return res, c.close(nil)
}

func (c *change) register(o uint32, l *schema.Login) schema.LoginResult {
	d := c.d
	i := d.find(o, l.Route.Session, c.uid)
	if res, answered := c.known(o, i, l.Route.Seq); answered {
		return res
	}
	if i != 0 && d.slab.at(i).state == pending {
		// the same login anew: whatever comes of it, the old token is dead
		c.end(i, floor, schema.ReasonConnect)
		i = d.find(o, l.Route.Session, c.uid)
	}
	in := Candidate{l.Route, l.ResumeBoot, l.ResumeSession, d.settings.MaxSessions}
	in.Route.Owner, in.Route.Order = d.owners[o].process, schema.Order{}
	removals, displaced, res := c.admit(&in)
	if res.Code != schema.CodeOK {
		return res
	}
	for _, p := range displaced {
		c.end(p, floor, schema.ReasonReplaced)
	}
	if i != 0 {
		d.drop(i) // overtaken by what is added now
	}
	if removals == 0 {
		in.Route.Order = d.nextOrder()
		c.add(o, &in.Route, committed, c.now, c.now)
		return schema.LoginResult{Code: schema.CodeOK, Order: in.Route.Order}
	}
	return c.propose(o, &in, l.Left)
}

// known answers an operation that is not news: a retry, one that was overtaken, one of a session
// that was put out, or the newer attempt of a login that has been committed.
func (c *change) known(o, i uint32, seq schema.OwnerSeq) (_ schema.LoginResult, answered bool) {
	old := seq < c.d.owners[o].settled
	if i == 0 {
		return schema.LoginResult{Code: schema.CodeOldSeq}, old
	}
	r := c.d.slab.at(i)
	switch {
	case r.state == superseded:
		return putOut(r), true
	case seq == r.seq && r.state == pending:
		return c.again(i), true
	case seq == r.seq && r.state == committed:
	case seq <= r.seq || old:
		return schema.LoginResult{Code: schema.CodeOldSeq}, true
	case r.state == committed:
		r.seq, r.active = seq, c.now
	default:
		return schema.LoginResult{}, false
	}
	return schema.LoginResult{Code: schema.CodeOK, Order: r.order}, true
}

// again answers the retry of a pending login: its token, and the routes that still stand.
func (c *change) again(i uint32) schema.LoginResult {
	verdict, all := c.judge(i)
	if verdict != Admit {
		return c.refuse(i, verdict)
	}
	return c.conflict(i, all)
}

func putOut(r *record) schema.LoginResult {
	return schema.LoginResult{Code: schema.CodeSuperseded, Close: r.loss.close()}
}

func refused(v Verdict) schema.LoginResult {
	return schema.LoginResult{Code: schema.CodeRefused, Close: schema.CloseRefused, Why: v.String()}
}

// refuse ends a pending login by a verdict.
func (c *change) refuse(i uint32, v Verdict) schema.LoginResult {
	c.end(i, floor, schema.ReasonPolicy)
	return refused(v)
}

// admit asks everything that can speak against a login. With CodeOK it gives the number of routes
// that have to end, and the pending logins whose place the new one takes.
func (c *change) admit(in *Candidate) (removals int, displaced []uint32, _ schema.LoginResult) {
	d := c.d
	if d.rebuilding && d.settings.Policy.rejectNew {
		return 0, nil, schema.LoginResult{Code: schema.CodeBusy, RetryAfter: retryRebuild}
	}
	existing, _ := c.visible()
	verdict, out := d.settings.Policy.Decide(existing, *in)
	if verdict != Admit {
		return 0, nil, refused(verdict)
	}
	displaced, res := c.rivals(in)
	if res.Code != schema.CodeOK {
		return 0, nil, res
	}
	if in.fights(existing, out) {
		if wait := d.damper.wait(d.device(&in.Route), c.now); wait > 0 {
			return 0, nil, schema.LoginResult{Code: schema.CodeDamped, RetryAfter: wait}
		}
	}
	return len(out), displaced, schema.LoginResult{}
}

// rivals looks at the other pending logins of the uid: the same device's gives its place up,
// another device's that cannot stand beside this one comes first. A verdict is told before that.
func (c *change) rivals(in *Candidate) (displaced []uint32, _ schema.LoginResult) {
	d := c.d
	busy := schema.LoginResult{}
	for i := d.first(c.hash, c.uid); i != 0; i = d.slab.at(i).next {
		if d.slab.at(i).state != pending {
			continue
		}
		other := c.candidate(i)
		switch {
		case !d.settings.Policy.rivals(&other, in):
		case in.Route.Gen < other.Route.Gen:
			return nil, refused(RefusedOlder)
		case relate(&other.Route, in) != sameDevice:
			busy.Code = schema.CodeBusy
		default:
			displaced = append(displaced, i)
		}
	}
	return displaced, busy
}

// propose makes a login pending until the routes that stand in its way have ended.
func (c *change) propose(o uint32, in *Candidate, left time.Duration) schema.LoginResult {
	d := c.d
	i := c.add(o, &in.Route, pending, c.now, c.now+min(max(left, 0), d.settings.Login))
	d.pendings[i] = &login{
		token:         d.token(in.Route.Session),
		resumeBoot:    schema.BootID(strings.Clone(string(in.ResumeBoot))),
		resumeSession: in.ResumeSession,
	}
	return c.again(i)
}

// nextOrder ranks a login above all that were committed before.
func (d *Directory) nextOrder() schema.Order {
	d.lastOrder++
	return schema.Order{Fence: d.fence, N: d.lastOrder}
}
