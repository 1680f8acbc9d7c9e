package swarm_test

import (
	"fmt"
	"iter"
	"time"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
)

// moments gives those at which something befalls, with waits drawn between them.
func (p *plan) moments(d *dice, from, least, most time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for at := from + d.between(0, most); at < p.calm; at += d.between(least, most) {
			if !yield(at) {
				return
			}
		}
	}
}

// span draws how long something lasts: a moment, a while, or about as long as a lease.
func (p *plan) span(d *dice) time.Duration {
	switch lease := p.config.Lease(); d.IntN(5) {
	case 0, 1:
		return d.between(5*time.Millisecond, 300*time.Millisecond)
	case 2, 3:
		return d.between(300*time.Millisecond, 5*time.Second)
	default:
		return d.between(lease/2, lease*3/2)
	}
}

// befallPerson has a device come, lose its network, and go, one thing after the other.
func (p *plan) befallPerson(d *dice, n int) {
	name := fmt.Sprintf("person %d", n)
	p.add(d.between(time.Second, 6*time.Second), name+" comes", func(r *run) { r.people[n].come() })
	busy := time.Duration(0)
	for at := range p.moments(d, 6*time.Second, time.Second, 25*time.Second) {
		if at < busy {
			continue
		}
		off := d.between(100*time.Millisecond, 10*time.Second)
		switch d.IntN(10) {
		case 0, 1:
			p.add(at, name+"'s connection breaks", func(r *run) { r.people[n].blip() })
			continue
		case 2, 3:
			off = p.span(d)
			p.add(at, fmt.Sprintf("%s's network is silent for %v", name, off), func(r *run) { r.people[n].silence(true) })
			p.add(at+off, "", func(r *run) { r.people[n].silence(false) })
		case 4, 5:
			p.away(n, at, off, "leaves", goodbye)
		case 6:
			p.away(n, at, off, "is killed", killed)
		case 7:
			p.away(n, at, off, "vanishes", vanished)
		default:
			off = p.flap(d, n, at)
		}
		busy = at + off
	}
}

// flap has a device go and come a few times in a moment: logins and goodbyes overtake each other. It
// gives how long that takes.
func (p *plan) flap(d *dice, n int, at time.Duration) (lasts time.Duration) {
	times := 3 + d.IntN(4)
	p.add(at, fmt.Sprintf("person %d goes and comes %d times", n, times), func(*run) {})
	how := pick(d, goodbye, killed)
	for range times {
		lasts += d.between(10*time.Millisecond, 400*time.Millisecond)
		p.add(at+lasts, "", func(r *run) { r.people[n].leave(how) })
		lasts += d.between(10*time.Millisecond, 200*time.Millisecond)
		p.add(at+lasts, "", func(r *run) { r.people[n].come() })
	}
	return lasts
}

func (p *plan) away(n int, at, off time.Duration, goes string, how ending) {
	p.add(at, fmt.Sprintf("person %d %s for %v", n, goes, off), func(r *run) { r.people[n].leave(how) })
	p.add(at+off, "", func(r *run) { r.people[n].come() })
}

// befallNetwork cuts, breaks and spoils links.
func (p *plan) befallNetwork(d *dice) {
	for at := range p.moments(d, firstFault, 50*time.Millisecond, 6*time.Second) {
		where := p.place(d)
		switch d.IntN(12) {
		case 0, 1:
			lasts := p.span(d)
			p.add(at, fmt.Sprintf("%s is cut off for %v", where, lasts), func(r *run) { r.cut(where) })
			p.add(at+lasts, "", func(r *run) { r.heal(where) })
		case 2:
			p.add(at, fmt.Sprintf("connections of %s break", where), func(r *run) { r.reset(where) })
		case 3:
			g, lasts := p.gateway(d), p.span(d)
			p.add(at, fmt.Sprintf("%s stands still for %v", g, lasts), func(r *run) { r.pause(g) })
			p.add(at+lasts, "", func(r *run) { r.unpause(g) })
		case 4:
			p.cutOffBucket(d, at)
		case 5:
			p.storm(d, at)
		default:
			p.spoil(d, at, where)
		}
	}
}

// storm cuts a gateway off while people lose their networks and come back by others, and ends an
// authority meanwhile: its successor is told of both sessions of a device, in whatever order.
func (p *plan) storm(d *dice, at time.Duration) {
	g, a, lasts := place{node: p.gateway(d)}, p.authority(d), d.between(4*time.Second, 12*time.Second)
	p.add(at, fmt.Sprintf("%s is cut off for %v, and people vanish", g, lasts), func(r *run) { r.cut(g) })
	p.add(at+lasts, "", func(r *run) { r.heal(g) })
	for n := range p.people {
		if d.chance(60) {
			p.away(n, at+d.between(0, 2*time.Second), 20*time.Millisecond, "vanishes", vanished)
		}
	}
	p.restart(a, at+d.between(2500*time.Millisecond, lasts), d.between(100*time.Millisecond, 5*time.Second), "is killed", killed)
}

// cutOffBucket lets a process reach everybody but JetStream: what it asks there is lost, or what it is
// answered, and maybe what others write as well.
func (p *plan) cutOffBucket(d *dice, at time.Duration) {
	where, lasts := place{node: pick(d, p.authority(d), p.gateway(d))}, p.span(d)
	answers, deaf := d.chance(50), d.chance(30)
	what := fmt.Sprintf("%s is cut off from JetStream for %v (answers only %v, no notices %v)", where, lasts, answers, deaf)
	p.during(at, lasts, what, func(r *run) (rules []*bubble.Rule) {
		for _, l := range r.links(where) {
			for _, subject := range []string{"$KV.presence.>", "$JS.API.>"} {
				if answers {
					rules = append(rules, l.LoseAnswer(subject, -1))
				} else {
					rules = append(rules, l.Lose(subject, -1))
				}
			}
			if deaf {
				rules = append(rules, l.LoseIn("presence.changed.>", -1))
			}
		}
		return rules
	})
}

func remove(rules []*bubble.Rule) {
	for _, r := range rules {
		r.Remove()
	}
}

// spoil loses, doubles or delays some messages of a link, or all of a kind for a while.
func (p *plan) spoil(d *dice, at time.Duration, where place) {
	out, in := where.publishes(d), where.gets(d)
	lasts, late := d.between(50*time.Millisecond, p.config.TTL()/6), p.span(d)
	late = max(10*time.Millisecond, min(late, p.calm-at-lasts)) // what is late still comes before the calm
	var what string
	var on func(l *bubble.Link, times int) *bubble.Rule
	switch d.IntN(6) {
	case 0:
		what, on = "lose "+out, func(l *bubble.Link, n int) *bubble.Rule { return l.Lose(out, n) }
	case 1:
		what, on = "lose the answers to "+out, func(l *bubble.Link, n int) *bubble.Rule { return l.LoseAnswer(out, n) }
	case 2:
		what, on = "lose incoming "+in, func(l *bubble.Link, n int) *bubble.Rule { return l.LoseIn(in, n) }
	case 3:
		what, on = "double "+out, func(l *bubble.Link, n int) *bubble.Rule { return l.Duplicate(out, n) }
	case 4:
		what, on = fmt.Sprintf("delay %s by %v", out, late), func(l *bubble.Link, n int) *bubble.Rule { return l.Delay(out, n, late) }
	default:
		what, on = fmt.Sprintf("delay incoming %s by %v", in, late), func(l *bubble.Link, n int) *bubble.Rule { return l.DelayIn(in, n, late) }
	}
	times, often := 1+d.IntN(3), ""
	if d.chance(40) {
		times, often = -1, fmt.Sprintf("for %v", lasts)
	} else {
		often = fmt.Sprintf("%d times", times)
	}
	p.during(at, lasts, fmt.Sprintf("%s: %s, %s", where, what, often), func(r *run) (rules []*bubble.Rule) {
		for _, l := range r.links(where) {
			rules = append(rules, on(l, times))
		}
		return rules
	})
}

// befallProcesses kills, stops and starts processes, the server and the bucket.
func (p *plan) befallProcesses(d *dice) {
	for at := range p.moments(d, firstFault, 2*time.Second, 20*time.Second) {
		node, down := pick(d, p.authority(d), p.gateway(d)), d.between(100*time.Millisecond, 20*time.Second)
		switch d.IntN(12) {
		case 0, 1, 2, 3:
			p.restart(node, at, down, "is killed", killed)
		case 4:
			p.restart(node, at, down, "vanishes", vanished)
		case 5, 6, 7:
			p.restart(node, at, down, "stops", goodbye)
		case 8:
			down = d.between(50*time.Millisecond, p.config.TTL()/9)
			p.add(at, fmt.Sprintf("the NATS server is down for %v", down), (*run).stopServer)
			p.add(at+down, "", (*run).startServer)
		case 9:
			p.add(at, "the bucket is deleted", (*run).deleteBucket)
		default:
			uid := pick(d, p.people...).uid
			p.add(at, fmt.Sprintf("an operator kicks %s", uid), func(r *run) { r.kick(uid) })
		}
	}
}

func (p *plan) restart(node string, at, down time.Duration, goes string, how ending) {
	p.add(at, fmt.Sprintf("%s %s, started after %v", node, goes, down), func(r *run) { r.end(node, how) })
	p.add(at+down, "", func(r *run) { r.start(node) })
}

// lose has a process end right before the calm, for good: the others have to do without it.
func (p *plan) lose(d *dice) {
	node, at := pick(d, p.authority(d), p.gateway(d)), p.calm-d.between(time.Millisecond, 2*time.Second)
	switch d.IntN(5) {
	case 0:
		p.lost = node
		p.add(at, node+" is killed", func(r *run) { r.end(node, killed) })
	case 1:
		p.lost = node
		p.add(at, node+" vanishes", func(r *run) { r.end(node, vanished) })
	}
}
