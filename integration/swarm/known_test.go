package swarm_test

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/schema"
)

// never is the place in a trace of what has not happened.
const never = int(^uint(0) >> 1)

// login is what the messages tell of one session. Its moments are places in the trace: the first
// message that tells that it was so.
type login struct {
	id     schema.SessionID
	route  schema.Route
	resume schema.Login    // with the session that it continues
	order  schema.Order    // the highest that was given or told
	asked  []int           // where it was registered
	stood  int             // it was committed
	kicked int             // its kick was acknowledged
	gone   int             // its unregister was
	under  schema.Revision // the fence of that
	alive  time.Duration   // its last sign of life that an authority has acknowledged
	exiles []exile         // a directory each
}

// ranked is the session's route with its order.
func (l *login) ranked() schema.Route {
	r := l.route
	r.Order = l.order
	return r
}

// known is what the messages of a run tell, all together.
type known struct {
	succession
	policy   directory.Policy
	ttl      time.Duration
	sessions map[schema.SessionID]*login
	byUID    map[schema.UID][]*login
	named    map[string][]naming             // by message, the sessions that pushes have named
	boots    map[schema.BootID]schema.NodeID // of gateways
	ends     map[schema.BootID]int           // from where on such a boot's key may not stand
}

// naming is a push that names a session.
type naming struct {
	seq     int
	session schema.SessionID
}

func learn(c schema.Config, events []event) *known {
	k := &known{
		succession: newSuccession(), ttl: c.TTL(),
		sessions: map[schema.SessionID]*login{}, byUID: map[schema.UID][]*login{}, named: map[string][]naming{},
		boots: map[schema.BootID]schema.NodeID{}, ends: map[schema.BootID]int{},
	}
	k.policy, _ = directory.ParsePolicy(c.Policy)
	for i := range events {
		if e := &events[i]; e.request == nil {
			k.request(e)
		} else {
			k.succession.hear(e)
			k.answer(e)
		}
	}
	return k
}

// login gives what is known of a session, and takes in what its gateway tells.
func (k *known) login(r *schema.Route) *login {
	id := r.Session.Outside(r.Owner.Boot)
	l := k.sessions[id]
	if l == nil {
		l = &login{id: id, route: *r, stood: never, kicked: never, gone: never}
		k.sessions[id] = l
		k.byUID[r.UID] = append(k.byUID[r.UID], l)
		k.boots[r.Owner.Boot] = r.Owner.Node
	}
	l.ordered(r.Order)
	return l
}

func (l *login) ordered(o schema.Order) {
	if o.Compare(l.order) > 0 {
		l.order = o
	}
}

// find gives a session that was told of; a login of nobody where it was not.
func (k *known) find(p schema.Process, s schema.SessionNum) *login {
	if l := k.sessions[s.Outside(p.Boot)]; l != nil {
		return l
	}
	return &login{id: s.Outside(p.Boot), stood: never, kicked: never, gone: never}
}

func (k *known) request(e *event) {
	switch m := e.msg.(type) {
	case nil:
		k.keys(e)
	case *schema.Register:
		for i := range m.Logins {
			l := k.login(&m.Logins[i].Route)
			l.asked, l.resume = append(l.asked, e.seq), m.Logins[i]
		}
	case *schema.Commit:
		for _, entry := range m.Entries {
			for _, end := range entry.Ends {
				if end.How == schema.EndAnswered {
					k.kicked(e, end.Owner, end.Session)
				}
			}
		}
	case *schema.Sync:
		for i := range m.Routes {
			k.login(&m.Routes[i])
		}
	case *schema.Push:
		for _, f := range m.Frames {
			for _, to := range f.Recipients {
				k.named[f.ID] = append(k.named[f.ID], naming{e.seq, to.Session.Outside(m.To.Boot)})
			}
		}
	}
}

func (k *known) answer(e *event) {
	switch m := e.msg.(type) {
	case *schema.RegisterAnswer:
		req := e.request.msg.(*schema.Register)
		for i, res := range m.Results {
			k.committed(e, req.Head.From, req.Logins[i].Route.Session, res)
		}
	case *schema.CommitAnswer:
		req := e.request.msg.(*schema.Commit)
		for i, res := range m.Results {
			k.committed(e, req.Head.From, req.Entries[i].Session, res)
			if res.Code == schema.CodeOK {
				k.ended(e, req.Head.Target.Fence, req.Entries[i].Ends)
			}
		}
	case *schema.SyncAnswer:
		req := e.request.msg.(*schema.Sync)
		for i, v := range m.Verdicts {
			if v.Code == schema.CodeOK {
				l := k.login(&req.Routes[i])
				l.stood = min(l.stood, e.seq)
				l.alive = max(l.alive, e.request.at-req.Routes[i].Idle)
			}
		}
		for _, x := range m.Losers {
			k.putOut(e, k.find(x.Owner, x.Session), req.Head.Target.Fence)
		}
	case *schema.TouchAnswer:
		k.touched(e, m)
	case *schema.UnregisterAnswer:
		req := e.request.msg.(*schema.Unregister)
		for i, code := range m.Results {
			if l := k.find(req.Head.From, req.Entries[i].Session); code == schema.CodeOK && l.gone == never {
				l.gone, l.under = e.seq, req.Head.Target.Fence
			}
		}
	case *schema.KickAnswer:
		req := e.request.msg.(*schema.Kick)
		for i, code := range m.Results {
			if code == schema.CodeOK || code == schema.CodeUnknown {
				k.kicked(e, req.To, req.Entries[i].Session)
			}
		}
	}
}

// ended takes from a commit who was put out by it without his gateway's word.
func (k *known) ended(e *event, fence schema.Revision, ends []schema.End) {
	for _, end := range ends {
		if end.How != schema.EndAnswered {
			k.putOut(e, k.find(end.Owner, end.Session), fence)
		}
	}
}

func (k *known) kicked(e *event, p schema.Process, s schema.SessionNum) {
	l := k.find(p, s)
	l.kicked = min(l.kicked, e.seq)
}

func (k *known) committed(e *event, from schema.Process, s schema.SessionNum, res schema.LoginResult) {
	if res.Code != schema.CodeOK {
		return
	}
	l := k.find(from, s)
	l.stood = min(l.stood, e.seq)
	l.alive = max(l.alive, e.request.at)
	l.ordered(res.Order)
}

func (k *known) touched(e *event, m *schema.TouchAnswer) {
	req := e.request.msg.(*schema.Touch)
	if m.Head.Code != schema.CodeOK {
		return
	}
	for _, t := range req.Sessions {
		if !slices.ContainsFunc(m.Exceptions, func(x schema.TouchException) bool { return x.Session == t.Session }) {
			l := k.find(req.Head.From, t.Session)
			l.alive = max(l.alive, e.request.at-t.Idle)
		}
	}
}

// keys notes from when on gateways' keys may not stand: from the first attempt to end one, whatever
// came of it.
func (k *known) keys(e *event) {
	if e.mark == bucketLost {
		k.losses = append(k.losses, e.at)
	}
	for boot, node := range k.boots {
		_, ended := k.ends[boot]
		mine := e.key != nil && e.key.node == node
		if !ended && (e.mark == bucketLost || mine && (e.key.value.Boot != boot || e.key.value.State == schema.StateDead)) {
			k.ends[boot] = e.seq
		}
	}
}

// beats reports whether the policy puts out one of two sessions of a user for the other, were that
// the later login.
func (k *known) beats(winner, loser *login) bool {
	return k.puts(loser.ranked(), directory.Candidate{
		Route: winner.ranked(), ResumeBoot: winner.resume.ResumeBoot, ResumeSession: winner.resume.ResumeSession,
	})
}

func (k *known) puts(old schema.Route, in directory.Candidate) bool {
	verdict, out := k.policy.Decide([]schema.Route{old}, in)
	return verdict != directory.Admit || len(out) > 0
}

// outranks reports whether of two sessions that have both been committed the second has to go: for a
// later login, or, where the policy keeps the first, for an earlier one.
func (k *known) outranks(winner, loser *login) bool {
	w, l := winner.ranked(), loser.ranked()
	if rank(&w, &l) > 0 {
		return k.beats(winner, loser)
	}
	verdict, _ := k.policy.Decide([]schema.Route{w}, directory.Candidate{Route: l})
	return verdict == directory.RefusedPolicy
}

// rank compares two logins: by generation, then by order.
func rank(a, b *schema.Route) int {
	if a.Gen != b.Gen {
		return int(a.Gen) - int(b.Gen)
	}
	return a.Order.Compare(b.Order)
}
