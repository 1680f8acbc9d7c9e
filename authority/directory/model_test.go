package directory

import (
	"maps"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// model is the directory as a naive map over everything ever heard: nothing is freed, nothing is
// indexed, every question walks over all of it. The policies are taken as they are; they have
// tables of their own.
type model struct {
	rules   Settings
	fence   schema.Revision
	rebuild bool
	orders  uint64
	all     map[identity]*entry
	gone    map[schema.Process]bool
	met     map[schema.Process]bool
	settled map[schema.Process]schema.OwnerSeq
	damper  damper
	device  func(*schema.Route) uint64
}

type identity struct {
	uid     schema.UID
	owner   schema.Process
	session schema.SessionNum
}

type entry struct {
	state  state
	route  schema.Route // with seq and order
	since  time.Duration
	active time.Duration // as in record
	loss   cell
	token  schema.CommitToken
	in     Candidate
	ends   map[identity]schema.Ending // those that the token has named
	named  *time.Duration
}

func newModel(rules Settings, fence schema.Revision) *model {
	return &model{
		rules: rules.withDefaults(), fence: fence, all: map[identity]*entry{}, gone: map[schema.Process]bool{},
		met: map[schema.Process]bool{}, settled: map[schema.Process]schema.OwnerSeq{},
	}
}

// sender takes in who sent an operation; false from a boot that is gone.
func (m *model) sender(head schema.SlotHead) bool {
	p := head.From
	if m.gone[p] {
		return false
	}
	for other := range m.met {
		if other.Node == p.Node && other != p {
			m.gone[other] = true
		}
	}
	m.met[p] = true
	m.settled[p] = max(m.settled[p], head.Settled)
	return true
}

// get gives what counts of an identity now, nil where nothing does.
func (m *model) get(id identity, now time.Duration) *entry {
	e := m.all[id]
	if e == nil || m.gone[id.owner] {
		return nil
	}
	if e.state == pending && e.active <= now || (e.state == committed || e.state == superseded) && e.active+m.rules.TTL <= now {
		e.state, e.named = floor, nil
	}
	if (e.state == floor || e.state == tombstone) && e.route.Seq < m.settled[id.owner] {
		return nil
	}
	return e
}

func (m *model) list(uid schema.UID, s state, now time.Duration) (ids []identity) {
	for id := range m.all {
		if e := m.get(id, now); id.uid == uid && e != nil && e.state == s {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b identity) int { return int(a.session) - int(b.session) })
	return ids
}

func (m *model) visible(uid schema.UID, now time.Duration) (ids []identity, routes []schema.Route) {
	ids = m.list(uid, committed, now)
	for _, id := range ids {
		routes = append(routes, m.all[id].route)
	}
	return ids, routes
}

func (m *model) nextOrder() schema.Order {
	m.orders++
	return schema.Order{Fence: m.fence, N: m.orders}
}

func (m *model) register(now time.Duration, head schema.SlotHead, l schema.Login) schema.LoginResult {
	if !m.sender(head) {
		return schema.LoginResult{Code: schema.CodeRetry}
	}
	id := identity{l.Route.UID, head.From, l.Route.Session}
	e := m.get(id, now)
	old := l.Route.Seq < m.settled[head.From]
	switch {
	case e == nil && old:
		return schema.LoginResult{Code: schema.CodeOldSeq}
	case e == nil:
	case e.state == superseded:
		return putOut(&record{loss: e.loss})
	case e.route.Seq == l.Route.Seq && e.state == committed:
		return schema.LoginResult{Code: schema.CodeOK, Order: e.route.Order}
	case e.route.Seq == l.Route.Seq && e.state == pending:
		return m.judge(e, now, nil)
	case l.Route.Seq <= e.route.Seq || old:
		return schema.LoginResult{Code: schema.CodeOldSeq}
	case e.state == committed:
		e.route.Seq, e.active = l.Route.Seq, now
		return schema.LoginResult{Code: schema.CodeOK, Order: e.route.Order}
	case e.state == pending:
		e.state = floor
	}
	return m.login(id, now, l)
}

func (m *model) login(id identity, now time.Duration, l schema.Login) schema.LoginResult {
	if m.rebuild && m.rules.Policy.rejectNew {
		return schema.LoginResult{Code: schema.CodeBusy, RetryAfter: retryRebuild}
	}
	in := Candidate{l.Route, l.ResumeBoot, l.ResumeSession, m.rules.MaxSessions}
	_, routes := m.visible(id.uid, now)
	verdict, out := m.rules.Policy.Decide(routes, in)
	if verdict != Admit {
		return refused(verdict)
	}
	var displaced []*entry
	var codes []schema.Code
	for _, rival := range m.list(id.uid, pending, now) {
		e := m.all[rival]
		switch {
		case !m.rules.Policy.rivals(&e.in, &in):
		case in.Route.Gen < e.in.Route.Gen:
			codes = append(codes, schema.CodeRefused)
		case relate(&e.in.Route, &in) == sameDevice:
			displaced = append(displaced, e)
		default:
			codes = append(codes, schema.CodeBusy)
		}
	}
	if slices.Contains(codes, schema.CodeRefused) {
		return refused(RefusedOlder)
	}
	if len(codes) > 0 {
		return schema.LoginResult{Code: schema.CodeBusy}
	}
	if in.fights(routes, out) {
		if wait := m.damper.wait(m.device(&in.Route), now); wait > 0 {
			return schema.LoginResult{Code: schema.CodeDamped, RetryAfter: wait}
		}
	}
	for _, e := range displaced {
		e.state = floor
	}
	e := &entry{state: committed, route: l.Route, since: now, active: now, in: in}
	m.all[id] = e
	if len(out) > 0 {
		e.state = pending
		e.active = now + min(l.Left, m.rules.Login)
		e.ends = map[identity]schema.Ending{}
		return m.judge(e, now, nil)
	}
	e.route.Order = m.nextOrder()
	return schema.LoginResult{Code: schema.CodeOK, Order: e.route.Order}
}

// judge answers a pending login, and commits it where ends, if there are any, allow it.
func (m *model) judge(e *entry, now time.Duration, commit []schema.End) schema.LoginResult {
	uid := e.route.UID
	for _, end := range commit {
		id := identity{uid, end.Owner, end.Session}
		if how, named := e.ends[id]; named && (how == 0 || how == schema.EndForced) {
			e.ends[id] = end.How
		}
	}
	ids, routes := m.visible(uid, now)
	verdict, out := m.rules.Policy.Decide(routes, e.in)
	if verdict != Admit {
		e.state = floor
		return refused(verdict)
	}
	missing := commit == nil
	var wait time.Duration
	var open []schema.Conflict
	var openIDs []identity
	for _, x := range out {
		id := ids[x.Index]
		victim := m.all[id]
		forced := m.rules.Conflict
		if victim.named != nil {
			forced = max(0, *victim.named+m.rules.Conflict-now)
		}
		how := e.ends[id]
		if how == schema.EndAnswered || how == schema.EndGone || how == schema.EndForced && forced == 0 {
			continue
		}
		if how == schema.EndForced {
			wait = max(wait, forced)
		} else {
			missing = true
		}
		open = append(open, schema.Conflict{Owner: id.owner, Session: id.session, Close: x.Close, Device: victim.route.Device, Forced: forced})
		openIDs = append(openIDs, id)
	}
	switch {
	case missing:
		for _, id := range openIDs {
			if _, named := e.ends[id]; !named {
				e.ends[id] = 0
			}
			if m.all[id].named == nil {
				at := now
				m.all[id].named = &at
			}
		}
		return schema.LoginResult{Code: schema.CodeConflict, Token: e.token, Conflicts: open}
	case wait > 0:
		return schema.LoginResult{Code: schema.CodeBusy, RetryAfter: wait}
	}
	for _, x := range out {
		m.takeOut(e, ids[x.Index], x.by, now)
	}
	e.state, e.active, e.route.Order = committed, now, m.nextOrder()
	return schema.LoginResult{Code: schema.CodeOK, Order: e.route.Order}
}

func (m *model) takeOut(e *entry, id identity, by cell, now time.Duration) {
	victim := m.all[id]
	if e.ends[id] != schema.EndAnswered {
		victim.state, victim.loss, victim.active, victim.named = superseded, by, now, nil
		return
	}
	if by == replace && !e.in.resumes(&victim.route) {
		m.damper.count(m.device(&e.in.Route), now)
	}
	victim.state, victim.named = floor, nil
}

func (m *model) commit(now time.Duration, head schema.SlotHead, x schema.CommitEntry) schema.LoginResult {
	if !m.sender(head) {
		return schema.LoginResult{Code: schema.CodeRetry}
	}
	e := m.get(identity{x.UID, head.From, x.Session}, now)
	switch {
	case e != nil && e.state == superseded:
		return putOut(&record{loss: e.loss})
	case e != nil && e.state == committed:
		return schema.LoginResult{Code: schema.CodeOK, Order: e.route.Order}
	case e == nil || e.state != pending || e.token != x.Token:
		return schema.LoginResult{Code: schema.CodeDeadToken}
	}
	return m.judge(e, now, append([]schema.End{}, x.Ends...))
}

func (m *model) unregister(now time.Duration, head schema.SlotHead, x schema.Leave) schema.Code {
	if !m.sender(head) {
		return schema.CodeRetry
	}
	id := identity{x.UID, head.From, x.Session}
	e := m.get(id, now)
	old := x.Seq < m.settled[head.From] || e != nil && x.Seq <= e.route.Seq
	switch {
	case e != nil && e.state == tombstone && e.route.Seq == x.Seq:
		return schema.CodeOK
	case old && e != nil && e.state == superseded:
		return schema.CodeSuperseded
	case old:
		return schema.CodeOldSeq
	}
	m.all[id] = &entry{state: tombstone, route: schema.Route{UID: x.UID, Owner: head.From, Session: x.Session, Seq: x.Seq}}
	return schema.CodeOK
}

func (m *model) touch(now time.Duration, head schema.SlotHead, s schema.SessionNum, idle time.Duration) (code schema.Code, closing schema.CloseCode) {
	code = schema.CodeUnknown
	if !m.sender(head) {
		return code, 0
	}
	for id := range m.all {
		e := m.get(id, now)
		if id.owner != head.From || id.session != s || e == nil {
			continue
		}
		switch e.state {
		case committed:
			e.active = max(e.active, now-idle)
			return schema.CodeOK, 0
		case superseded:
			code, closing = schema.CodeSuperseded, e.loss.close()
		}
	}
	return code, closing
}

func (m *model) sync(now time.Duration, head schema.SlotHead, r schema.Route) schema.SyncVerdict {
	if !m.sender(head) {
		return schema.SyncVerdict{Code: schema.CodeRetry}
	}
	id := identity{r.UID, head.From, r.Session}
	e := m.get(id, now)
	old := r.Seq < m.settled[head.From]
	switch {
	case e == nil && !old:
	case e != nil && e.state == superseded:
		return schema.SyncVerdict{Code: schema.CodeSuperseded, Close: e.loss.close()}
	case e != nil && e.state == committed && e.route.Seq == r.Seq:
		return schema.SyncVerdict{}
	case old || r.Seq <= e.route.Seq:
		return schema.SyncVerdict{Code: schema.CodeOldSeq}
	case e.state == committed:
		e.route.Seq, e.active = r.Seq, max(e.active, now-r.Idle)
		return schema.SyncVerdict{}
	}
	if r.Order.Fence == m.fence {
		m.orders = max(m.orders, r.Order.N)
	}
	ids, routes := m.visible(r.UID, now)
	for _, want := range []cell{replace, kick, reject} {
		for i := range routes {
			if by, itLoses := m.rules.Policy.pair(&routes[i], &r); by == want && !itLoses {
				m.all[id] = &entry{state: superseded, route: r, loss: by, active: now}
				return schema.SyncVerdict{Code: schema.CodeSuperseded, Close: by.close()}
			}
		}
	}
	for i := range routes {
		if by, _ := m.rules.Policy.pair(&routes[i], &r); by != stay {
			loser := m.all[ids[i]]
			loser.state, loser.loss, loser.active, loser.named = superseded, by, now, nil
		}
	}
	m.all[id] = &entry{state: committed, route: r, since: now - r.Age, active: now - r.Idle}
	return schema.SyncVerdict{}
}

func (m *model) remove(now time.Duration, x schema.Disowned) int {
	e := m.get(identity{x.UID, x.Owner, x.Session}, now)
	if e == nil || e.state != committed || e.route.Seq != x.Seq || e.named != nil && now < *e.named+m.rules.Conflict {
		return 0
	}
	e.state, e.named = floor, nil
	return 1
}

func (m *model) lookup(uid schema.UID, now time.Duration) []schema.Route {
	ids, routes := m.visible(uid, now)
	for i := range routes {
		e := m.all[ids[i]]
		routes[i].Age, routes[i].Idle, routes[i].TTL = now-e.since, now-e.active, e.active+m.rules.TTL-now
	}
	return routes
}

// living lists the boots that may send.
func (m *model) living() []schema.Process {
	return slices.SortedFunc(maps.Keys(m.met), func(a, b schema.Process) int { return slices.Compare([]byte(a.Boot), []byte(b.Boot)) })
}
