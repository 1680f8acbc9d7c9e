package swarm_test

import (
	"fmt"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
)

// place is a link of the mesh.
type place struct {
	node string // a-1, gw-1 or delivery
	part string // of a gateway: control or push; empty: both
}

func (l place) String() string {
	if l.part == "" {
		return l.node
	}
	return l.node + " " + l.part
}

func (p *plan) authority(d *dice) string { return fmt.Sprintf("a-%d", 1+d.IntN(p.authorities)) }
func (p *plan) gateway(d *dice) string   { return fmt.Sprintf("gw-%d", 1+d.IntN(p.gateways)) }

func (p *plan) place(d *dice) place {
	switch d.IntN(9) {
	case 0, 1, 2:
		return place{node: p.authority(d)}
	case 3:
		return place{node: p.gateway(d)}
	case 4, 5, 6:
		return place{node: p.gateway(d), part: "control"}
	case 7:
		return place{node: p.gateway(d), part: "push"}
	}
	return place{node: "delivery"}
}

// What may befall messages, by who publishes or gets them. What is named twice befalls them twice as
// often.
var (
	ofAuthority = []string{"_INBOX.>", "$KV.presence.>", "$KV.presence.slot.*", "$KV.presence.authority.*"}
	ofGateway   = []string{
		"kick.>", "kick.>", "_INBOX.>", "$KV.presence.gateway.*", "authority.>", "slot.*.*.register", "slot.*.*.register",
		"slot.*.*.commit", "slot.*.*.commit", "slot.*.*.unregister", "slot.*.*.unregister", "slot.*.*.touch", "slot.*.*.sync", "slot.>",
	}
	ofDelivery = []string{"authority.>", "push.>", "kick.>", "slot.>"}

	inAuthority = []string{"slot.>", "authority.>", "_INBOX.>", "presence.changed.>", "presence.changed.slot.*"}
	inGateway   = []string{"kick.>", "push.>", "_INBOX.>", "presence.changed.>", "presence.changed.slot.*"}
	inDelivery  = []string{"_INBOX.>", "presence.changed.>"}
)

func (l place) publishes(d *dice) string { return l.choose(d, ofAuthority, ofGateway, ofDelivery) }
func (l place) gets(d *dice) string      { return l.choose(d, inAuthority, inGateway, inDelivery) }

func (l place) choose(d *dice, authority, gateway, delivery []string) string {
	switch {
	case l.node == "delivery":
		return pick(d, delivery...)
	case isAuthority(l.node):
		return pick(d, authority...)
	}
	return pick(d, gateway...)
}

func isAuthority(node string) bool { return node[0] == 'a' }

// links gives those of a place, none where its process is down.
func (r *run) links(where place) []*bubble.Link {
	if where.node == "delivery" {
		return []*bubble.Link{r.m.Asker}
	}
	if a := r.authority(where.node); a != nil {
		return []*bubble.Link{a.Link}
	}
	g := r.gateway(where.node)
	switch {
	case g == nil:
		return nil
	case where.part == "control":
		return []*bubble.Link{g.Control}
	case where.part == "push":
		return []*bubble.Link{g.Push}
	}
	return []*bubble.Link{g.Control, g.Push}
}

func (r *run) cut(where place) {
	for _, l := range r.links(where) {
		l.Cut()
	}
}

func (r *run) heal(where place) {
	for _, l := range r.links(where) {
		l.Heal()
	}
}

func (r *run) reset(where place) {
	for _, l := range r.links(where) {
		l.Reset()
	}
}
