package delivery

import (
	"context"

	"github.com/rollcall-mesh/rollcall/schema"
)

// maxDisowned bounds the disowned routes that wait for one slot's authority. One that is dropped
// there is found out again by the next push to it, and goes with its time to live.
const maxDisowned = 4096

// takeDisowned gives how many go into one request.
func takeDisowned(waiting []schema.Disowned) int { return min(len(waiting), schema.MaxRecipients) }

// disown tells the authorities, beside the caller, of routes that their gateway does not know.
func (d *Delivery) disown(p *plan) {
	for t, list := range p.disowned() {
		for _, e := range list {
			if err := d.mesh.removes.Add(t, e); err != nil {
				d.meter.notSent(laneRemove, err)
				break // that slot's lane is full, the others' need not be
			}
		}
	}
}

// carryDisowned asks for removal. Each is fenced by target and seq, so a failure needs no care.
func (d *Delivery) carryDisowned(ctx context.Context, t schema.Target, list []schema.Disowned) {
	removed, err := d.mesh.client.Remove(ctx, t, list)
	if err != nil {
		d.s.log.Debug("disowned routes not removed", "target", t, "routes", len(list), "err", err)
		return
	}
	d.meter.removed(removed)
}

// disownKicked does the same for sessions that were to be kicked and are not there.
func (d *Delivery) disownKicked(f *Found, kicked []Kicked) {
	for _, k := range kicked {
		if k.Result != schema.KickNoSession {
			continue
		}
		r := k.Route
		e := schema.Disowned{UID: r.UID, Owner: r.Owner, Session: r.Session, Seq: r.Seq}
		if err := d.mesh.removes.Add(f.Target, e); err != nil {
			d.meter.notSent(laneRemove, err)
			return
		}
	}
}
