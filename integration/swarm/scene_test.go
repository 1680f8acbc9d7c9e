package swarm_test

import (
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Scenes are faults that belong together. Each asks for a rule of the product that is needed only where
// several things meet which by chance hardly ever do; doc.go says which.
func (p *plan) stage(d *dice) {
	scenes := [...]func(*dice, time.Duration){p.echo, p.sever, p.depose, p.hand}
	for at := range p.moments(d, firstScene, 4*time.Second, 18*time.Second) {
		pick(d, scenes[:]...)(d, at)
	}
	if d.chance(40) {
		p.sever(d, p.calm-6*time.Second) // nothing befalls the two any more
	}
	p.farewell(d)
	p.forget(d)
}

// firstScene is when most people are there.
const firstScene = 6 * time.Second

// during has rules stand for a while.
func (p *plan) during(at, lasts time.Duration, what string, on func(r *run) []*bubble.Rule) {
	var rules []*bubble.Rule
	p.add(at, what, func(r *run) { rules = on(r) })
	p.add(at+lasts, "", func(*run) { remove(rules) })
}

// again has a device go, and come at once: its session is a new one, wherever the balancer sends it.
func (p *plan) again(n int, at time.Duration, how ending) {
	p.away(n, at, 20*time.Millisecond, "leaves", how)
}

// echo has what a user's authority is told come twice, or late, while a device of the user's comes and
// goes: a register, or after a hand-over a sync, arrives when its session has left.
func (p *plan) echo(d *dice, at time.Duration) {
	n, op := d.IntN(len(p.people)), pick(d, subjects.Register, subjects.Register, subjects.Sync)
	pattern := fmt.Sprintf("slot.%d.*.%s", subjects.SlotOf(p.people[n].uid), op)
	stays, late := d.between(50*time.Millisecond, 600*time.Millisecond), d.between(300*time.Millisecond, 1500*time.Millisecond)
	comes, on := "late", (*bubble.Link).Delay
	if d.chance(60) {
		comes, on = "a second time", (*bubble.Link).Echo
	}
	what := fmt.Sprintf("%s comes %s after %v, while person %d comes and goes", pattern, comes, late, n)
	p.during(at, stays+late, what, func(r *run) (rules []*bubble.Rule) {
		for _, g := range r.reachable() {
			rules = append(rules, on(g.Control, pattern, -1, late))
		}
		return rules
	})
	if op == subjects.Sync {
		p.restart(p.authority(d), at, d.between(100*time.Millisecond, 5*time.Second), "stops", goodbye)
	} else {
		p.again(n, at, goodbye)
	}
	p.away(n, at+stays+50*time.Millisecond, late+time.Second, "leaves", goodbye)
}

// sever breaks the connections of a gateway and lets it make none for a while: nobody answers for it, and
// yet it lives. Another device comes that puts out one which it holds, and may leave again at once.
func (p *plan) sever(d *dice, at time.Duration) {
	pairs := p.rivals()
	d.Shuffle(len(pairs), func(i, k int) { pairs[i], pairs[k] = pairs[k], pairs[i] })
	lasts, part := d.between(time.Second, 5*time.Second), pick(d, "", "control")
	var where place
	comes := 0
	p.add(at, fmt.Sprintf("a gateway is severed for %v, and somebody comes in place of one whom it holds", lasts), func(r *run) {
		if where, comes = r.held(pairs); where.node != "" {
			where.part = part
			r.cut(where)
			r.reset(where)
			r.people[comes].leave(goodbye)
		}
	})
	then := func(after time.Duration, do func(r *run)) {
		p.add(at+after, "", func(r *run) {
			if where.node != "" {
				do(r)
			}
		})
	}
	then(20*time.Millisecond, func(r *run) { r.people[comes].come() })
	then(lasts, func(r *run) { r.heal(where) })
	if d.chance(60) {
		then(lasts+d.between(0, 500*time.Millisecond), func(r *run) { r.people[comes].leave(goodbye) })
		then(lasts+d.between(5*time.Second, 20*time.Second), func(r *run) { r.people[comes].come() })
	}
}

// rivals gives the pairs of devices of a user of which the second puts out the first.
func (p *plan) rivals() (pairs [][2]int) {
	policy, _ := directory.ParsePolicy(p.config.Policy)
	for n := range p.people {
		for m := range p.people {
			old, in := p.people[n].route(), directory.Candidate{Route: p.people[m].route()}
			if _, out := policy.Decide([]schema.Route{old}, in); n != m && old.UID == in.Route.UID && len(out) > 0 {
				pairs = append(pairs, [2]int{n, m})
			}
		}
	}
	return pairs
}

// held gives the gateway that holds the first of a pair, and the second; none where there is no such.
func (r *run) held(pairs [][2]int) (where place, comes int) {
	for _, pair := range pairs {
		p := r.people[pair[0]]
		if v, _ := p.open(); v != nil {
			return place{node: string(v.gateway.Node)}, pair[1]
		}
	}
	return place{}, 0
}

func (s someone) route() schema.Route {
	return schema.Route{UID: s.uid, Device: s.device, Flag: s.flag, Level: s.level}
}

// depose cuts an authority off from the bucket for longer than its lease, and a gateway off from news: who
// logs in there is sent to an owner who has been succeeded.
func (p *plan) depose(d *dice, at time.Duration) {
	a, g, lease := p.authority(d), place{p.gateway(d), "control"}, p.config.Lease()
	lasts := lease + d.between(time.Second, lease)
	what := fmt.Sprintf("%s is cut off from the bucket for %v, and %s hears no news", a, lasts, g)
	p.during(at, lasts, what, func(r *run) (rules []*bubble.Rule) {
		for _, l := range r.links(place{node: a}) {
			rules = append(rules, l.Lose("$KV.presence.>", -1), l.Lose("$JS.API.>", -1), l.LoseIn("presence.changed.>", -1))
		}
		for _, l := range r.links(g) {
			rules = append(rules, l.Lose("$JS.API.>", -1), l.LoseIn("presence.changed.>", -1))
		}
		return rules
	})
	for n := range p.people {
		p.again(n, at+lease+d.between(0, lasts-lease), goodbye)
	}
}

// hand has an authority hand its slots over while its answers are late and people come: a login is
// committed by it, and told when a successor has the slot.
func (p *plan) hand(d *dice, at time.Duration) {
	const before = 450 * time.Millisecond
	a, late := p.authority(d), d.between(50*time.Millisecond, before)
	what := fmt.Sprintf("%s answers %v late, and stops", a, late)
	p.during(at-before, before+time.Second, what, func(r *run) (rules []*bubble.Rule) {
		for _, l := range r.links(place{node: a}) {
			rules = append(rules, l.Delay("_INBOX.>", -1, late))
		}
		return rules
	})
	p.restart(a, at, d.between(time.Second, 5*time.Second), "stops", goodbye)
	for n := range p.people {
		p.again(n, at-before+d.between(0, before+200*time.Millisecond), goodbye)
	}
}

// farewell has a device of the first user, to whom nobody pushes, come and leave right before the calm,
// and its unregister be lost.
func (p *plan) farewell(d *dice) {
	if !d.chance(30) {
		return
	}
	at := p.calm - d.between(1500*time.Millisecond, 3*time.Second)
	pattern := fmt.Sprintf("slot.%d.*.unregister", subjects.SlotOf(p.people[0].uid))
	p.during(at, p.calm-at, pattern+" is lost", func(r *run) (rules []*bubble.Rule) {
		for _, g := range r.reachable() {
			rules = append(rules, g.Control.Lose(pattern, -1))
		}
		return rules
	})
	p.again(0, at, goodbye)
	p.add(at+time.Second, "person 0 leaves", func(r *run) { r.people[0].leave(goodbye) })
}

// forget has an operator delete the keys of users' slots where one authority is alone: nobody else can
// claim them.
func (p *plan) forget(d *dice) {
	if p.lost != "" && isAuthority(p.lost) && p.authorities == 2 && d.chance(60) {
		p.add(p.calm-time.Millisecond, "the keys of all users' slots are deleted", (*run).deleteSlots)
	}
}
