package delivery

import (
	"context"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// where gives where users are: by the cache where that is on, else by look-up. From says of whom the
// cache told; nil where of nobody.
func (d *Delivery) where(ctx context.Context, uids []schema.UID, await time.Duration) (found []Found, from []bool, err error) {
	if d.s.cache == 0 || await > 0 {
		found, err = d.lookup(ctx, uids, await)
		return found, nil, err
	}
	m, err := d.open(ctx)
	if err != nil {
		found, err = notOpen(uids, err)
		return found, nil, err
	}
	found = make([]Found, len(uids))
	rest, from := m.cache.begin(uids, found)
	if len(rest.uids) == 0 {
		return found, from, nil
	}
	answers, err := d.lookup(ctx, rest.uids, 0)
	m.cache.end(rest, answers)
	if err != nil {
		return nil, nil, err
	}
	if from == nil {
		return answers, nil, nil
	}
	for i, at := range rest.at {
		found[at] = answers[i]
	}
	return found, from, nil
}

// asked is a look-up of those of whom the cache knows nothing.
type asked struct {
	uids   []schema.UID
	at     []int32 // their places in the answer
	ticket uint64
	begun  time.Time
}

// begin fills in what is kept of users. Those in rest are to be looked up, and the answer is to go
// to end, also where there is none. From says of whom it knew; nil where of nobody.
func (k *cached) begin(uids []schema.UID, found []Found) (rest asked, from []bool) {
	l, hears := k.lost()
	rest.begun = time.Now()
	known := make([]*kept, 0, len(uids))
	k.mu.Lock()
	k.noteLocked(l)
	rest.ticket = k.c.tick()
	routes := 0
	for i, uid := range uids {
		if have, ok := k.c.get(rest.begun, k.owners, uid); ok && hears {
			if from == nil {
				from = make([]bool, len(uids))
			}
			from[i] = true
			known = append(known, have)
			routes += len(have.user.Routes)
			continue
		}
		rest.uids, rest.at = append(rest.uids, uid), append(rest.at, int32(i))
		k.c.ask(uid)
	}
	k.mu.Unlock()
	// What is kept is not changed any more, so that it can be read without the lock.
	own := make([]schema.Route, 0, routes)
	for i := range from {
		if from[i] {
			found[i], own = known[0].shown(rest.begun, own)
			known = known[1:]
		}
	}
	k.meter.cacheAsked(len(uids)-len(rest.uids), len(rest.uids))
	return rest, from
}

// end keeps what was answered.
func (k *cached) end(a asked, answers []Found) {
	l, hears := k.lost()
	now := time.Now()
	own := copies(answers) // callers do with theirs what they like
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noteLocked(l)
	for i, uid := range a.uids {
		user := Found{UID: uid, State: schema.Unknown}
		if hears && i < len(own) {
			user = own[i]
		}
		k.c.keep(a.ticket, a.begun, now, user)
	}
}

// copies gives answers that share nothing with these.
func copies(answers []Found) []Found {
	total := 0
	for i := range answers {
		total += len(answers[i].Routes)
	}
	own, routes := make([]Found, len(answers)), make([]schema.Route, 0, total)
	for i := range answers {
		from := len(routes)
		routes = append(routes, answers[i].Routes...)
		own[i] = answers[i]
		own[i].Routes = routes[from:len(routes):len(routes)]
	}
	return own
}
