package delivery

import "github.com/rollcall-mesh/rollcall/schema"

// refused reports whether the session is not where it was sent to, by its gateway's own word or by
// proof that the gateway is gone.
func refused(r schema.PushResult) bool {
	return r == schema.PushNoSession || r == schema.PushOwnerGone
}

// refused gives those of the places whose session is not there.
func (p *plan) refused(at []int32) (places []int32) {
	for _, k := range at {
		if refused(p.routes[k].Result) {
			places = append(places, k)
		}
	}
	return places
}

// usersAt gives the users of places.
func (p *plan) usersAt(at []int32) []schema.UID {
	uids := make([]schema.UID, len(at))
	for n, k := range at {
		uids[n] = p.routes[k].Route.UID
	}
	return uids
}

// misled gives those of the users of refused places of whom the cache told: each once a plan.
func (p *plan) misled(at []int32) (uids []schema.UID) {
	if p.cached == nil {
		return nil
	}
	for _, k := range at {
		i := p.routes[k].user
		if !p.cached[i] || p.renewed[i] != nil {
			continue
		}
		if p.renewed == nil {
			p.renewed = map[int32][]int32{}
		}
		p.renewed[i] = p.around(k)
		uids = append(uids, p.users[i].UID)
	}
	return uids
}

// around gives the places of all routes of the user of one.
func (p *plan) around(k int32) (places []int32) {
	user := p.routes[k].user
	for k > 0 && p.routes[k-1].user == user {
		k--
	}
	for ; int(k) < len(p.routes) && p.routes[k].user == user; k++ {
		places = append(places, k)
	}
	return places
}

// renew takes what a look-up said of misled users, and gives the places of the routes that are new:
// what was sent to already is not sent to again, whatever became of it.
func (p *plan) renew(found []Found, f filter) (fresh []int32) {
	for n := range found {
		u := &found[n]
		i := p.first[u.UID]
		old := p.renewed[i]
		for _, k := range old {
			p.routes[k].ghost = true
		}
		p.users[i].State, p.users[i].Why = u.State, u.Why
		p.users[i].skipped = eachMeant(u, f, func(r PushedRoute) {
			r.user = i
			if k, ok := p.among(old, r.Route); ok {
				r.Result = p.routes[k].Result
				p.routes[k] = r
				return
			}
			k := int32(len(p.routes))
			p.routes = append(p.routes, r)
			p.renewed[i], fresh = append(p.renewed[i], k), append(fresh, k)
		})
	}
	return fresh
}

// among finds the place of a session.
func (p *plan) among(places []int32, r *schema.Route) (int32, bool) {
	for _, k := range places {
		if o := p.routes[k].Route; o.Owner == r.Owner && o.Session == r.Session {
			return k, true
		}
	}
	return 0, false
}

// rejoin gives the users their routes again after some were renewed. What was refused and is not
// there by the new look-up is not told of: without the cache it would not have been sent to.
func (p *plan) rejoin() {
	at := 0
	for i := range p.users {
		u := &p.users[i]
		k := p.first[u.UID]
		if int(k) < i {
			*u = p.users[k]
			continue
		}
		from := at
		at += len(u.Routes)
		u.Routes = p.routes[from:at:at] // they have moved
		places, ok := p.renewed[k]
		if !ok {
			continue
		}
		u.Routes = make([]PushedRoute, 0, len(places))
		for _, k := range places {
			if r := p.routes[k]; !r.ghost || !refused(r.Result) {
				u.Routes = append(u.Routes, r)
			}
		}
	}
}
