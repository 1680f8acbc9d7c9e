package directory

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAgainstModel sends random operations, stale, repeated and reordered ones among them, from
// several nodes and boots to the directory and to the naive model, and holds their answers, what is
// visible, and what the events have told against each other after each.
func TestAgainstModel(t *testing.T) {
	rounds := 10 // of 100 histories, or -rapid.checks
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		rapid.Check(t, func(t *rapid.T) {
			r := newRun(t)
			for range rapid.IntRange(1, 150).Draw(t, "steps") {
				r.step()
				r.check()
			}
			r.finish()
		})
	}
}

var (
	runUIDs  = []schema.UID{"alice", "bob"}
	runStart = time.Unix(5_000_000, 0)
)

// run is one random history.
type run struct {
	*rapid.T
	d       *Directory
	m       *model
	now     time.Duration
	gates   [2]*gate
	boots   int
	sent    []message                                // all requests ever sent, which may arrive again
	told    map[schema.UID]map[schema.SessionID]bool // what a watcher believes
	stamp   schema.Stamp
	ended   map[identity]bool // an unregister was acknowledged
	rebuild bool
}

// gate is one living boot of a gateway.
type gate struct {
	head     schema.SlotHead
	seq      schema.OwnerSeq
	sessions []*session
}

type session struct {
	route  schema.Route
	token  schema.CommitToken
	names  []schema.Conflict
	closed bool
}

// message is one request; send delivers it, once more each time.
type message struct {
	from schema.Process
	what string
	send func()
}

func newRun(t *rapid.T) *run {
	names := []string{"levels", "single", "one_per_flag", "multi", "levels_reject_new", "single_reject_new"}
	p, err := ParsePolicy(rapid.SampledFrom(names).Draw(t, "policy"))
	require.NoError(t, err)
	rules := Settings{Policy: p, MaxSessions: rapid.IntRange(1, 4).Draw(t, "max")}
	rules.Grace = rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "grace")
	drawn := uint64(0)
	rules.Random = func() uint64 { drawn++; return drawn }
	r := &run{
		T: t, d: New(3, 7, rules), m: newModel(rules, 7),
		told: map[schema.UID]map[schema.SessionID]bool{}, ended: map[identity]bool{},
	}
	r.m.device = r.d.device
	r.stamp = r.d.Stamp()
	r.d.tick(runStart)
	for n := range r.gates {
		r.boot(n)
	}
	return r
}

func (r *run) at() time.Time { return runStart.Add(r.now) }

// boot starts a new life of a node; the directory learns of it by the first operation.
func (r *run) boot(node int) {
	r.boots++
	p := schema.Process{Node: schema.NodeID(fmt.Sprintf("g%d", node)), Boot: schema.BootID(fmt.Sprintf("b%d", r.boots))}
	r.gates[node] = &gate{head: schema.SlotHead{From: p}}
}

func (r *run) step() {
	kinds := []string{"login", "login", "login", "commit", "commit", "leave", "again", "again", "touch", "sync", "remove",
		"wait", "expire", "settle", "boot", "gone", "rebuild", "unknown"}
	kind := rapid.SampledFrom(kinds).Draw(r.T, "kind")
	g := r.gates[rapid.IntRange(0, 1).Draw(r.T, "node")]
	var s *session
	if len(g.sessions) > 0 {
		s = g.sessions[rapid.IntRange(0, len(g.sessions)-1).Draw(r.T, "session")]
	}
	switch kind {
	case "wait":
		r.now += rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 40 * time.Second, 90 * time.Second}).Draw(r.T, "wait")
	case "expire":
		r.expire()
	case "settle": // what was sent may yet arrive again, below the mark
		g.head.Settled = schema.OwnerSeq(rapid.IntRange(int(g.head.Settled), int(g.seq)+1).Draw(r.T, "settled"))
	case "boot":
		if node := rapid.IntRange(0, 3).Draw(r.T, "which"); node < len(r.gates) {
			r.boot(node)
		}
	case "gone":
		r.gone()
	case "rebuild":
		r.rebuilding()
	case "again":
		r.again()
	case "login":
		r.login(g, s)
	case "unknown":
		r.leave(g, &session{route: schema.Route{UID: rapid.SampledFrom(runUIDs).Draw(r.T, "uid"), Session: schema.SessionNum(1000 + r.boots)}})
	default:
		if s != nil {
			r.onSession(kind, g, s)
		}
	}
}

func (r *run) onSession(kind string, g *gate, s *session) {
	switch kind {
	case "commit":
		r.commit(g, s)
	case "leave":
		s.closed = true
		r.leave(g, s)
	case "touch":
		r.touch(g, s)
	case "sync":
		if !s.closed {
			r.sync(g, s)
		}
	case "remove":
		r.remove(g, s)
	}
}

// post keeps a request, and delivers it now or leaves that to a later "again".
func (r *run) post(g *gate, what string, send func()) {
	r.sent = append(r.sent, message{g.head.From, what, send})
	if rapid.IntRange(0, 5).Draw(r.T, "late") > 0 {
		r.Log(r.now, what)
		send()
	}
}

func (r *run) again() {
	if len(r.sent) == 0 {
		return
	}
	m := r.sent[rapid.IntRange(max(0, len(r.sent)-12), len(r.sent)-1).Draw(r.T, "which")]
	if r.d.process(m.from) == 0 && !r.alive(m.from) {
		return // freed: the worker lets in only what it knows to be living
	}
	r.Log(r.now, "again", m.what)
	m.send()
}

func (r *run) alive(p schema.Process) bool {
	return slices.ContainsFunc(r.gates[:], func(g *gate) bool { return g.head.From == p })
}

// login registers a new session, or an open one anew.
func (r *run) login(g *gate, s *session) {
	if s == nil || s.closed || rapid.Bool().Draw(r.T, "fresh") {
		s = &session{route: schema.Route{
			UID:     rapid.SampledFrom(runUIDs).Draw(r.T, "uid"),
			Session: schema.SessionNum(len(g.sessions) + 1),
			Device:  rapid.SampledFrom([]schema.DeviceID{"", "p", "t"}).Draw(r.T, "device"),
			Flag:    rapid.SampledFrom([]schema.Flag{"app", "app", "web"}).Draw(r.T, "flag"),
			Level:   schema.Level(rapid.IntRange(0, 1).Draw(r.T, "level")),
			Gen:     schema.Generation(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(r.T, "gen")),
			Owner:   g.head.From,
		}}
		g.sessions = append(g.sessions, s)
	}
	g.seq++
	l := schema.Login{Route: s.route, Left: rapid.SampledFrom([]time.Duration{time.Second, 4 * time.Second, time.Hour}).Draw(r.T, "left")}
	l.Route.Seq, l.Route.Order = g.seq, schema.Order{}
	if rapid.IntRange(0, 3).Draw(r.T, "resume") == 0 {
		l.ResumeBoot = r.gates[rapid.IntRange(0, 1).Draw(r.T, "resumed node")].head.From.Boot
		l.ResumeSession = schema.SessionNum(rapid.IntRange(1, len(g.sessions)).Draw(r.T, "resumed"))
	}
	head := g.head
	r.post(g, fmt.Sprintf("register %v settled=%d %+v", head.From, head.Settled, l), func() {
		before := r.all(l.Route.UID)
		want := r.m.register(r.now, head, l)
		got, events := r.d.Register(r.at(), head, l)
		r.same(identity{l.Route.UID, head.From, l.Route.Session}, want, got)
		if got.Token != "" {
			s.token, s.names = got.Token, got.Conflicts
		}
		s.learn(got)
		if got.Code == schema.CodeOK && slices.ContainsFunc(before, func(o schema.Route) bool { return o.Owner == head.From && o.Session == s.route.Session }) {
			require.Len(r.T, r.all(l.Route.UID), len(before), "a repeated register displaced another")
		}
		r.watch(events)
	})
}

func (s *session) learn(got schema.LoginResult) {
	if got.Code == schema.CodeOK {
		s.route.Order = got.Order
	}
}

// same holds two answers to a login against each other; the model learns the token of a new one.
func (r *run) same(id identity, want, got schema.LoginResult) {
	require.Equal(r.T, want.Code.String(), got.Code.String())
	require.Equal(r.T, want.Order, got.Order)
	require.Equal(r.T, want.RetryAfter, got.RetryAfter)
	if want.Close != 0 {
		require.Equal(r.T, want.Close, got.Close)
	}
	require.ElementsMatch(r.T, want.Conflicts, got.Conflicts)
	if got.Code == schema.CodeConflict {
		e := r.m.all[id]
		if e.token == "" {
			e.token = got.Token
		}
		require.Equal(r.T, e.token, got.Token)
	}
}

func (r *run) commit(g *gate, s *session) {
	x := schema.CommitEntry{UID: s.route.UID, Session: s.route.Session, Token: s.token}
	for _, c := range s.names {
		how := rapid.SampledFrom([]schema.Ending{0, schema.EndAnswered, schema.EndAnswered, schema.EndAnswered, schema.EndGone, schema.EndForced}).Draw(r.T, "how")
		if how != 0 {
			x.Ends = append(x.Ends, schema.End{Owner: c.Owner, Session: c.Session, How: how})
		}
	}
	head := g.head
	r.post(g, fmt.Sprintf("commit %v settled=%d %+v", head.From, head.Settled, x), func() {
		want := r.m.commit(r.now, head, x)
		got, events := r.d.Commit(r.at(), head, x)
		r.same(identity{x.UID, head.From, x.Session}, want, got)
		if got.Code == schema.CodeConflict {
			s.names = append(slices.Clone(s.names), got.Conflicts...)
		}
		s.learn(got)
		r.watch(events)
	})
}

func (r *run) leave(g *gate, s *session) {
	g.seq++
	x := schema.Leave{UID: s.route.UID, Session: s.route.Session, Seq: g.seq, Reason: schema.ReasonLeave}
	head := g.head
	r.post(g, fmt.Sprintf("unregister %v settled=%d %+v", head.From, head.Settled, x), func() {
		want := r.m.unregister(r.now, head, x)
		got, events := r.d.Unregister(r.at(), head, x)
		require.Equal(r.T, want.String(), got.String())
		if got == schema.CodeOK {
			r.ended[identity{x.UID, head.From, x.Session}] = true
		}
		r.watch(events)
	})
}

func (r *run) touch(g *gate, s *session) {
	idle := rapid.SampledFrom([]time.Duration{0, 3 * time.Second, time.Minute}).Draw(r.T, "idle")
	head := g.head
	r.post(g, fmt.Sprintf("touch %v %d", head.From, s.route.Session), func() {
		code, closing := r.m.touch(r.now, head, s.route.Session, idle)
		got := r.d.Touch(r.at(), head, []schema.Touched{{Session: s.route.Session, Idle: idle}})
		if code == schema.CodeOK {
			require.Empty(r.T, got)
			return
		}
		require.Equal(r.T, []schema.TouchException{{Session: s.route.Session, Code: code, Close: closing}}, got)
	})
}

// sync sends a session with the order that it was given; one that never was is of an earlier tenure.
func (r *run) sync(g *gate, s *session) {
	if s.route.Order == (schema.Order{}) {
		s.route.Order = schema.Order{Fence: 6, N: uint64(rapid.IntRange(1, 6).Draw(r.T, "order"))}
	}
	g.seq++
	in := s.route
	in.Seq = g.seq
	in.Age, in.Idle = time.Hour, rapid.SampledFrom([]time.Duration{0, 20 * time.Second}).Draw(r.T, "idle")
	head := g.head
	r.post(g, fmt.Sprintf("sync %v settled=%d %+v", head.From, head.Settled, in), func() {
		before := r.all(in.UID)
		want := r.m.sync(r.now, head, in)
		got, losers, events := r.d.Sync(r.at(), head, []schema.Route{in})
		require.Equal(r.T, []schema.SyncVerdict{want}, got)
		after := r.all(in.UID)
		for _, o := range before {
			stands := slices.ContainsFunc(after, func(x schema.Route) bool { return x.Owner == o.Owner && x.Session == o.Session })
			loser := slices.ContainsFunc(losers, func(x schema.Loser) bool { return x.Owner == o.Owner && x.Session == o.Session })
			if o.Owner != in.Owner || o.Session != in.Session {
				require.Equal(r.T, !stands, loser || r.m.gone[o.Owner], "%v", o)
			}
		}
		r.watch(events)
	})
}

func (r *run) remove(g *gate, s *session) {
	x := schema.Disowned{UID: s.route.UID, Owner: g.head.From, Session: s.route.Session, Seq: g.seq}
	for _, o := range r.all(x.UID) {
		if o.Owner == x.Owner && o.Session == x.Session {
			x.Seq = o.Seq
		}
	}
	r.post(g, fmt.Sprintf("remove %+v", x), func() {
		want := r.m.remove(r.now, x)
		got, events := r.d.Remove(r.at(), []schema.Disowned{x})
		require.Equal(r.T, want, got)
		r.watch(events)
	})
}

func (r *run) gone() {
	node := rapid.IntRange(0, 5).Draw(r.T, "which")
	if node >= len(r.gates) {
		return
	}
	p := r.gates[node].head.From
	r.Log(r.now, "gone", p)
	r.watch(r.d.Gone(r.at(), p))
	r.m.met[p], r.m.gone[p] = true, true
	r.boot(node)
}

func (r *run) rebuilding() {
	r.rebuild = !r.rebuild
	r.Log(r.now, "rebuilding", r.rebuild)
	r.m.rebuild = r.rebuild
	r.d.Rebuilding(r.rebuild)
	if !r.rebuild { // watchers look up again; what has lapsed will be told yet
		r.told = r.tellable()
		r.stamp = r.d.Stamp()
	}
}

func (r *run) expire() {
	r.Log(r.now, "expire")
	for more := true; more; {
		var events []schema.Event
		events, more = r.d.Expire(r.at())
		r.watch(events)
	}
}
