package swarm_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// lack is what may not be well after the faults.
type lack uint8

const (
	missing lack = iota // a session that a client holds is not found
	ghost               // a session is found that no client holds
	out                 // a client that tries is not in
	lacks
)

var lackNames = [lacks]string{"missing", "ghost", "out"}

func (l lack) String() string { return lackNames[l] }

// settled is how a run ended.
type settled struct {
	last   [lacks]time.Duration // when it was so for the last time, from the calm on
	who    [lacks]schema.UID
	what   [lacks]string
	after  [lacks]string // what was so again long after
	whose  [lacks]schema.UID
	unsaid []string // of the last messages
}

// bounds are by when nothing is lacking any more.
//
//	missing   an authority that was stopping has asked a silent one in vain to take its slots; what was
//	          killed or cut off right before has lost its lease, its slots have been taken by rank and
//	          rebuilt; a route that its authority has lost is told again with its touch
//	ghost     the same; or a client without a network is found dead, after two heartbeats
//	out       the same; or a device that was in a fight has waited its longest wait, 30 s
func (p *plan) bounds() [lacks]time.Duration {
	c := p.config
	takeover := stopping + c.Lease() + time.Duration(p.authorities)*time.Second + c.Settle() + c.Flush()
	return [lacks]time.Duration{
		missing: takeover,
		ghost:   max(takeover, 2*c.Heartbeat()) + 3*time.Second,
		out:     takeover + 35*time.Second,
	}
}

const (
	stopping  = 2 * time.Second
	watchEach = 200 * time.Millisecond
	wellFor   = 6 * time.Second // and nothing moves any more but by time
)

// settle watches until all has been well for a while, at the latest until it must be; then it looks
// once more, long after: nothing comes back.
func (r *run) settle() {
	s, bounds := &r.settled, r.bounds()
	longest := slices.Max(bounds[:])
	begin := r.trace.now().at
	for last := time.Duration(0); ; time.Sleep(watchEach) {
		for _, node := range r.nodes() {
			if node != r.lost {
				r.start(node)
			}
		}
		now := r.trace.now().at - begin
		for kind := range lacks {
			if who, what := r.lacking(kind); what != "" {
				last, s.last[kind], s.who[kind], s.what[kind] = now, now, who, what
			}
		}
		if now-last >= wellFor || now > longest {
			break
		}
	}
	r.stopAsking()
	time.Sleep(longest)
	for kind := range lacks {
		s.whose[kind], s.after[kind] = r.lacking(kind)
	}
	s.unsaid = r.lastMessages()
}

// lacking says what is lacking of a kind, and to whom; nothing where all is well.
func (r *run) lacking(kind lack) (who schema.UID, what string) {
	open := map[schema.UID][]schema.SessionID{}
	for _, p := range r.people {
		v, trying := p.open()
		switch {
		case v != nil:
			open[p.uid] = append(open[p.uid], v.session)
		case trying && kind == out:
			return p.uid, fmt.Sprintf("person %d", p.n)
		}
	}
	if kind == out {
		return "", ""
	}
	found, err := r.m.Lookup(context.Background(), r.uids())
	if err != nil {
		return "", err.Error()
	}
	for _, f := range found {
		var seen []schema.SessionID
		for i := range f.Routes {
			seen = append(seen, f.Routes[i].Session.Outside(f.Routes[i].Owner.Boot))
		}
		if kind == ghost {
			seen, open[f.UID] = open[f.UID], seen
		}
		for _, s := range open[f.UID] {
			if !slices.Contains(seen, s) {
				return f.UID, fmt.Sprintf("%s, where the user is %s %s", s, f.State, f.Why)
			}
		}
		if kind == missing && (f.State == schema.Unknown || f.Partial || f.Suspect) {
			return f.UID, fmt.Sprintf("the user is %s %s, partial %v, suspect %v", f.State, f.Why, f.Partial, f.Suspect)
		}
	}
	return "", ""
}

// lastMessages pushes to everybody once more: each session gets it, and is said to.
func (r *run) lastMessages() (wrong []string) {
	done, err := r.m.Push(context.Background(), message("last"), r.uids())
	if err != nil {
		return []string{err.Error()}
	}
	time.Sleep(time.Millisecond)
	for _, u := range done.Users {
		for _, route := range u.Routes {
			if route.Result != schema.PushWritten {
				wrong = append(wrong, fmt.Sprintf("the last message to %s is %s", u.UID, route.Result))
			}
		}
	}
	for _, p := range r.people {
		v, _ := p.open()
		if v != nil && !slices.ContainsFunc(v.got, func(f frame) bool { return f.id == "last" }) {
			wrong = append(wrong, fmt.Sprintf("person %d (%s) did not get the last message", p.n, p.uid))
		}
	}
	return wrong
}

// settled judges 6.
func (j *judge) settled() {
	s, end := &j.r.settled, moment{at: j.r.plan.calm, seq: len(j.events)}
	for kind, bound := range j.r.bounds() {
		if s.last[kind] > bound {
			late := moment{at: j.r.plan.calm + s.last[kind], seq: end.seq}
			j.fail(late, s.who[kind], "6: %v still %v after the faults, at most %v: %s", lack(kind), s.last[kind], bound, s.what[kind])
		}
		if s.after[kind] != "" {
			j.fail(end, s.whose[kind], "6: %v long after the faults: %s", lack(kind), s.after[kind])
		}
	}
	for _, what := range s.unsaid {
		j.fail(end, "", "6: %s", what)
	}
}
