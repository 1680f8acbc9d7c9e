package directory

import (
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Explain tells all that is held of a uid: its routes, pending ones and those of gone owners too,
// what is remembered of its sessions that are out, and the latest refusals, newest last.
func (d *Directory) Explain(now time.Time, uid schema.UID) (routes []schema.ExplainedRoute, tombs []schema.ExplainedTomb, refused []schema.ExplainedNo) {
	t := d.tick(now)
	for i := d.first(d.hashUID(uid), uid); i != 0; i = d.slab.at(i).next {
		r := d.slab.at(i)
		switch {
		case !r.state.out():
			routes = append(routes, d.explain(r, t))
		case r.state != floor && !d.lapsed(r, t):
			tombs = append(tombs, schema.ExplainedTomb{
				Node: d.owners[r.owner].process.Node, Session: r.session.Outside(d.owners[r.owner].process.Boot),
				Seq: r.seq, Kind: r.state.String(),
			})
		}
	}
	return routes, tombs, d.refusals.of(uid, t)
}

func (d *Directory) explain(r *record, now time.Duration) schema.ExplainedRoute {
	own, c := &d.owners[r.owner], &d.classes.list[r.class]
	x := schema.ExplainedRoute{
		Node: own.process.Node, Boot: own.process.Boot, Session: r.session.Outside(own.process.Boot),
		Device: r.device(), Flag: c.flag, Level: c.level.String(), Listener: c.listener,
		Gen: r.gen, Seq: r.seq, Order: r.order, State: r.state.String(),
		ConnectedMS: (now - r.since).Milliseconds(),
		TTLMS:       max(0, d.ends(r)-now).Milliseconds(),
	}
	if r.state == committed {
		x.ActiveMS = (now - r.active).Milliseconds()
	}
	if own.gone {
		x.State = "owner_gone"
	}
	return x
}

// refusalsKept bounds what is remembered of refused logins, in one slot.
const refusalsKept = 32

// refusals remembers the latest refused logins for Explain: a full list forgets its oldest.
type refusals struct {
	list []refusal
	next int // the oldest of a full list
}

type refusal struct {
	uid     schema.UID
	node    schema.NodeID
	boot    schema.BootID
	session schema.SessionNum
	code    schema.Code
	why     string
	at      time.Duration
}

// note keeps an answer that is a refusal.
func (l *refusals) note(c *change, from schema.Process, s schema.SessionNum, res *schema.LoginResult) {
	if res.Code == schema.CodeOK || res.Code == schema.CodeConflict {
		return
	}
	no := refusal{
		uid: schema.UID(strings.Clone(string(c.uid))), node: from.Node, boot: from.Boot,
		session: s, code: res.Code, why: res.Why, at: c.now,
	}
	if len(l.list) < refusalsKept {
		l.list = append(l.list, no)
		return
	}
	l.list[l.next] = no
	l.next = (l.next + 1) % refusalsKept
}

func (l *refusals) of(uid schema.UID, now time.Duration) (all []schema.ExplainedNo) {
	for n := range l.list {
		no := &l.list[(l.next+n)%len(l.list)]
		if no.uid != uid {
			continue
		}
		all = append(all, schema.ExplainedNo{
			Node: no.node, Session: no.session.Outside(no.boot), Code: no.code, Why: no.why,
			AgoMS: (now - no.at).Milliseconds(),
		})
	}
	return all
}
