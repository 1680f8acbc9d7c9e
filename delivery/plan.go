package delivery

import (
	"github.com/rollcall-mesh/rollcall/schema"
)

// filter says which routes of a user are meant. The zero value means all.
type filter struct {
	device schema.DeviceID
	flag   schema.Flag
	skip   skip
}

// skip names the one session that is not meant.
type skip struct {
	uid     schema.UID
	owner   schema.Process
	session schema.SessionNum
}

func (f *filter) check() error {
	if err := f.device.Check(); err != nil {
		return bad("%w", err)
	}
	if f.flag != "" {
		if err := f.flag.Check(); err != nil {
			return bad("%w", err)
		}
	}
	return nil
}

// takes reports whether a route is of the device and class meant.
func (f *filter) takes(r *schema.Route) bool {
	return (f.device == "" || r.Device == f.device) && (f.flag == "" || r.Flag == f.flag)
}

// skips reports whether a route is the session that is not meant.
func (f *filter) skips(r *schema.Route) bool {
	return f.skip.uid != "" && f.skip == (skip{r.UID, r.Owner, r.Session})
}

// plan is where one message goes: for each recipient, in the order and number that the caller gave
// them, its routes; and all routes once, in the order in which they are sent to. It is pure: no
// clock, lock, context or network.
type plan struct {
	users   []PushedUser
	routes  []PushedRoute        // the users' routes are parts of it, until some are renewed
	first   map[schema.UID]int32 // the first place of each user
	cached  []bool               // users of whom the cache told; nil: none
	renewed map[int32][]int32    // users looked up anew: the places of their routes
}

// newPlan picks the routes. A recipient named twice shares the routes of its first place, so that
// each session gets the message once and both places tell the same.
func newPlan(found []Found, cached []bool, f filter) *plan {
	total := 0
	for i := range found {
		total += len(found[i].Routes)
	}
	p := &plan{users: make([]PushedUser, len(found)), routes: make([]PushedRoute, 0, total), first: make(map[schema.UID]int32, len(found)), cached: cached}
	for i := range found {
		u := &found[i]
		if k, ok := p.first[u.UID]; ok {
			p.users[i] = p.users[k]
			continue
		}
		p.first[u.UID] = int32(i)
		from := len(p.routes)
		skipped := eachMeant(u, f, func(r PushedRoute) {
			r.user = int32(i)
			p.routes = append(p.routes, r)
		})
		p.users[i] = PushedUser{UID: u.UID, State: u.State, Why: u.Why, Routes: p.routes[from:len(p.routes):len(p.routes)], skipped: skipped}
	}
	return p
}

// eachMeant gives the routes of a user that are meant; skipped says that one was the one that is not.
func eachMeant(u *Found, f filter, take func(PushedRoute)) (skipped bool) {
	for k := range u.Routes {
		switch r := &u.Routes[k]; {
		case f.skips(r):
			skipped = true
		case f.takes(r):
			take(PushedRoute{Route: r, by: &u.Target})
		}
	}
	return skipped
}

// all gives the places of all routes.
func (p *plan) all() []int32 {
	at := make([]int32, len(p.routes))
	for i := range at {
		at[i] = int32(i)
	}
	return at
}

// with gives the places of the routes with a result.
func (p *plan) with(r schema.PushResult) []int32 {
	var at []int32
	for i := range p.routes {
		if p.routes[i].Result == r {
			at = append(at, int32(i))
		}
	}
	return at
}

// batch is what goes to one gateway process in one message.
type batch struct {
	to   schema.Process
	at   []int32 // places of its recipients in the plan's routes
	size int     // of the message, an upper bound in bytes
}

// rowBytes bounds what a recipient takes beside its uid: a length, two deltas.
const rowBytes = 3 + 10 + 10

// batches parts the routes at the given places by owner, in the order in which they are met, so
// that none holds more than schema.MaxRecipients or schema.MaxPushBytes. Frame is what the message
// takes without recipients, in bytes; it fits with one.
func (p *plan) batches(at []int32, frame int) []batch {
	var list []batch
	open := map[schema.Process]int{} // the batch of an owner that has room, in list
	for _, i := range at {
		r := p.routes[i].Route
		more := rowBytes + len(r.UID)
		k, ok := open[r.Owner]
		if !ok || len(list[k].at) == schema.MaxRecipients || list[k].size+more > schema.MaxPushBytes {
			k = len(list)
			open[r.Owner] = k
			list = append(list, batch{to: r.Owner, size: frame})
		}
		list[k].at = append(list[k].at, i)
		list[k].size += more
	}
	return list
}

// recipients gives the routes of a batch as the gateway is to check them.
func (p *plan) recipients(b batch) []schema.Recipient {
	list := make([]schema.Recipient, len(b.at))
	for k, i := range b.at {
		r := p.routes[i].Route
		list[k] = schema.Recipient{UID: r.UID, Session: r.Session, Seq: r.Seq}
	}
	return list
}

// settle takes note of the results of a batch.
func (p *plan) settle(at []int32, results []schema.PushResult) {
	for k, i := range at {
		p.routes[i].Result = results[k]
	}
}

// pending gives those of the places whose session is still being set up.
func (p *plan) pending(at []int32) (again []int32) {
	for _, i := range at {
		if p.routes[i].Result == schema.PushPending {
			again = append(again, i)
		}
	}
	return again
}

// finish gives each recipient its verdict. Who is still pending may get the message or not.
func (p *plan) finish() {
	for _, i := range p.with(schema.PushPending) {
		p.routes[i].Result = schema.PushUnknown
	}
	if len(p.renewed) > 0 {
		p.rejoin()
	}
	for i := range p.users {
		u := &p.users[i]
		for k := range u.Routes {
			u.Reached = u.Reached || u.Routes[k].Result.Reached()
		}
	}
}

// disowned gives, by the target that told of them, the routes that their gateway disowned.
func (p *plan) disowned() map[schema.Target][]schema.Disowned {
	var by map[schema.Target][]schema.Disowned
	for _, i := range p.with(schema.PushNoSession) {
		if p.routes[i].ghost {
			continue // its authority does not know of it either
		}
		if by == nil {
			by = map[schema.Target][]schema.Disowned{}
		}
		r, told := p.routes[i].Route, *p.routes[i].by
		by[told] = append(by[told], schema.Disowned{UID: r.UID, Owner: r.Owner, Session: r.Session, Seq: r.Seq})
	}
	return by
}
