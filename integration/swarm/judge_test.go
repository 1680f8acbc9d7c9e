package swarm_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/schema"
)

// judge holds what was recorded of a run against the invariants.
type judge struct {
	*known
	r      *run
	events []event
	visits map[schema.SessionID]*visit
	wrong  []wrong
	counts counts
}

// wrong is an invariant that was broken.
type wrong struct {
	moment
	uid  schema.UID
	text string
}

// counts are what there was to judge: where that is nothing, nothing was shown.
type counts struct {
	pairs   int // of routes in one answer
	frames  int // that clients got
	kicks   int // acknowledged
	leaves  int // unregisters acknowledged
	losers  int // sessions that were put out
	stood   int // sessions that were active through a look-up
	lapsed  int // such sessions passed over, since their route may have expired
	offline int // look-ups that said offline
	exiles  int // sessions that were put out without their gateways' word
	told    int // of which gateways were told so after the faults
	doubted int // look-ups passed over, since neither who asked nor who answered knew of a successor
}

func (c *counts) add(o counts) {
	c.pairs += o.pairs
	c.frames += o.frames
	c.kicks += o.kicks
	c.leaves += o.leaves
	c.losers += o.losers
	c.stood += o.stood
	c.lapsed += o.lapsed
	c.offline += o.offline
	c.exiles += o.exiles
	c.told += o.told
	c.doubted += o.doubted
}

func judgeRun(r *run) *judge {
	j := &judge{r: r, events: r.trace.read(), visits: map[schema.SessionID]*visit{}}
	j.known = learn(r.config, j.events)
	for _, p := range r.people {
		for _, v := range p.visits {
			j.visits[v.session] = v
		}
	}
	for i := range j.events {
		j.hear(&j.events[i])
	}
	for _, p := range r.people {
		for _, v := range p.visits {
			j.visit(v)
		}
	}
	for i := range r.pushes {
		j.written(&r.pushes[i])
	}
	for i := range r.looks {
		j.look(&r.looks[i])
	}
	for _, l := range j.sessions {
		j.counts.kicks += min(1, never-l.kicked)
		j.counts.leaves += min(1, never-l.gone)
		j.counts.exiles += len(l.exiles)
	}
	j.settled()
	return j
}

func (j *judge) fail(at moment, uid schema.UID, format string, args ...any) {
	j.wrong = append(j.wrong, wrong{at, uid, fmt.Sprintf("%.3fs: ", at.at.Seconds()) + fmt.Sprintf(format, args...)})
}

// hear judges what one message tells.
func (j *judge) hear(e *event) {
	switch m := e.msg.(type) {
	case *schema.LookupAnswer:
		j.lookedUp(e, m)
	case *schema.PushAnswer:
		j.pushed(e, m)
	case *schema.RegisterAnswer:
		req := e.request.msg.(*schema.Register)
		for i, res := range m.Results {
			j.committed(e, req.Head, req.Logins[i].Route.Session, res)
		}
	case *schema.CommitAnswer:
		req := e.request.msg.(*schema.Commit)
		for i, res := range m.Results {
			j.committed(e, req.Head, req.Entries[i].Session, res)
		}
	case *schema.SyncAnswer:
		req := e.request.msg.(*schema.Sync)
		for _, x := range m.Losers {
			j.lost(e.moment, j.find(x.Owner, x.Session), "a sync")
		}
		for i, v := range m.Verdicts {
			j.superseded(e, req.Head.From, req.Routes[i].Session, v.Code)
		}
	case *schema.TouchAnswer:
		for _, x := range m.Exceptions {
			j.superseded(e, e.request.msg.(*schema.Touch).Head.From, x.Session, x.Code)
		}
	}
}

// committed judges 7 by each login that an owner says it has committed. The same answer once more is none.
func (j *judge) committed(e *event, head schema.SlotHead, s schema.SessionNum, res schema.LoginResult) {
	l := j.find(head.From, s)
	if res.Code != schema.CodeOK || l.stood != e.seq || j.unclear(e.at, j.r.config.Lease()) {
		return
	}
	if by := j.succeeded(head.Target, e.at); by != 0 {
		j.fail(e.moment, l.route.UID, "7: %s is committed by %s, and the slot was owned under fence %d", l.id, head.Target, by)
	}
}

// superseded judges 8 by what becomes of a session whose gateway was told, after the faults, that it is
// put out.
func (j *judge) superseded(e *event, from schema.Process, s schema.SessionNum, code schema.Code) {
	v := j.visits[s.Outside(from.Boot)]
	if code != schema.CodeSuperseded || v == nil || e.request.at < j.r.plan.calm {
		return
	}
	j.counts.told++
	if v.to == (moment{}) || v.to.at > e.at+arrives {
		j.fail(e.moment, v.uid, "8: %s lives on, and its gateway was told that it is put out", v.session)
	}
}

// lookedUp judges 1 and 3 by what a directory shows under one fence.
func (j *judge) lookedUp(e *event, m *schema.LookupAnswer) {
	eachAnswer(e, m, func(uid schema.UID, g *schema.GroupAnswer, routes []schema.Route) {
		j.side(e.moment, uid, g.Target, routes)
		for i := range routes {
			l := j.find(routes[i].Owner, routes[i].Session)
			if l.gone < e.request.seq && l.under <= g.Target.Fence {
				j.fail(e.moment, uid, "3: %s is visible at %s, and had been unregistered under fence %d", l.id, g.Target, l.under)
			}
			if l.exiled(g.Target, e.request.moment, e.moment) {
				j.fail(e.moment, uid, "8: %s is visible at %s, and had been put out there", l.id, g.Target)
			}
		}
	})
}

// eachAnswer gives what a look-up's answer tells of each uid, as far as it goes.
func eachAnswer(e *event, m *schema.LookupAnswer, f func(schema.UID, *schema.GroupAnswer, []schema.Route)) {
	req := e.request.msg.(*schema.Lookup)
	uids, routes, counts := req.UIDs, m.Routes, m.Counts
	for i := range m.Groups {
		for range req.Groups[i].Count {
			if len(counts) == 0 {
				return
			}
			f(uids[0], &m.Groups[i], routes[:counts[0]])
			routes, counts, uids = routes[counts[0]:], counts[1:], uids[1:]
		}
	}
}

// side judges routes that stand side by side.
func (j *judge) side(at moment, uid schema.UID, t schema.Target, routes []schema.Route) {
	for i := range routes {
		for k := range i {
			low, high := &routes[i], &routes[k]
			if rank(low, high) > 0 {
				low, high = high, low
			}
			j.counts.pairs++
			if j.puts(*low, directory.Candidate{Route: *high}) {
				j.fail(at, uid, "1: %s holds %s and %s", t, show(low), show(high))
			}
		}
	}
}

func show(r *schema.Route) string {
	return fmt.Sprintf("%s (%q, %s, %s, order %v)", r.Session.Outside(r.Owner.Boot), r.Device, r.Flag, r.Level, r.Order)
}

// pushed judges 2 by what gateways say that they have queued.
func (j *judge) pushed(e *event, m *schema.PushAnswer) {
	req := e.request.msg.(*schema.Push)
	results := m.Results
	for _, f := range req.Frames {
		for _, to := range f.Recipients {
			if len(results) == 0 {
				return
			}
			if l := j.find(req.To, to.Session); results[0] == schema.PushWritten && l.kicked < e.request.seq {
				j.fail(e.moment, to.UID, "2: %s is queued to %s, whose kick was acknowledged", f.ID, l.id)
			}
			results = results[1:]
		}
	}
}

// visit judges 2 by what a client got, and 4 by why it was closed.
func (j *judge) visit(v *visit) {
	boot, num, _ := v.session.Parse()
	l := j.find(schema.Process{Boot: boot}, num)
	for _, f := range v.got {
		j.counts.frames++
		named, before := false, false
		for _, n := range j.named[f.id] {
			named = named || n.session == v.session
			before = before || n.session == v.session && n.seq < l.kicked
		}
		switch {
		case !named:
			j.fail(f.moment, v.uid, "2: %s came to %s, which no push has named", f.id, v.session)
		case !before:
			j.fail(f.moment, v.uid, "2: %s came to %s, whose kick was acknowledged before it was sent", f.id, v.session)
		}
	}
	if v.code == schema.CloseKicked || v.code == schema.CloseReplaced {
		j.lost(v.to, l, "a kick")
	}
}

// arrives bounds how long a frame that is queued may take to a client whose network is well.
const arrives = time.Second

// written judges 2 the other way round: what is said to be queued comes, where the session lives on.
func (j *judge) written(p *push) {
	for _, route := range p.said.Routes {
		v := j.visits[route.Route.Session.Outside(route.Route.Owner.Boot)]
		until := p.to.at + arrives
		switch {
		case route.Result != schema.PushWritten, v == nil:
		case v.from.at > until: // its client heard of it later still
		case v.to != (moment{}) && v.to.at <= until:
		case slices.ContainsFunc(v.deaf, func(d span) bool { return d.meets(p.from.at, until) }):
		case !slices.ContainsFunc(v.got, func(f frame) bool { return f.id == p.id }):
			j.fail(p.to, v.uid, "2: %s was written to %s, and never came", p.id, v.session)
		}
	}
}

// lost judges 4: who is put out has met a later login.
func (j *judge) lost(at moment, loser *login, by string) {
	if loser.stood == never {
		return
	}
	j.counts.losers++
	for _, other := range j.byUID[loser.route.UID] {
		asked := slices.ContainsFunc(other.asked, func(seq int) bool { return seq > loser.stood && seq < at.seq })
		if other != loser && (asked && j.beats(other, loser) || j.outranks(other, loser)) {
			return
		}
	}
	j.fail(at, loser.route.UID, "4: %s is put out by %s, and met no later login in conflict with it", loser.id, by)
}

// look judges 3 and 5 by a look-up that delivery believes.
func (j *judge) look(l *look) {
	for i := range l.found {
		f := &l.found[i]
		if f.Suspect && j.succeeded(f.Target, l.to.at) != 0 {
			j.counts.doubted++
			continue
		}
		for k := range f.Routes {
			if s := j.find(f.Routes[k].Owner, f.Routes[k].Session); s.gone < l.from.seq {
				j.fail(l.to, f.UID, "3: %s is found at %s, and had been unregistered under fence %d", s.id, f.Target, s.under)
			}
		}
		offline := f.State == schema.Offline
		if offline {
			j.counts.offline++
		}
		for _, s := range j.byUID[f.UID] {
			if v := j.visits[s.id]; v != nil && j.active(v, s, l) && offline {
				j.fail(l.to, f.UID, "5: said to be offline by %s (suspect %v), and %s was active from %.3fs on (look-up from %.3fs on)",
					f.Target, f.Suspect, s.id, v.from.at.Seconds(), l.from.at.Seconds())
			}
		}
	}
}

// active reports whether a session was active, on a gateway whose key stood, through a look-up, and
// had not been put out by another.
func (j *judge) active(v *visit, s *login, l *look) bool {
	end, ended := j.ends[v.gateway.Boot]
	switch {
	case v.from.seq >= l.from.seq, v.to != (moment{}) && v.to.at <= l.to.at, ended && end < l.to.seq:
		return false
	case slices.ContainsFunc(v.deaf, func(d span) bool { return d.meets(l.to.at, l.to.at) }):
		return false
	case slices.ContainsFunc(j.byUID[v.uid], func(o *login) bool { return o != s && o.stood < l.to.seq && j.outranks(o, s) }):
		return false
	case s.alive+j.r.config.TTL() <= l.to.at:
		j.counts.lapsed++
		return false
	}
	j.counts.stood++
	return true
}
