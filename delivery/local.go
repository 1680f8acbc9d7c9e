package delivery

import (
	"context"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Local is a gateway in this process, or several. A *gateway.Gateway is one.
type Local interface {
	// Find gives the route of a user's device where it is active here and nothing else can be meant;
	// flag may be empty. By is the owner of the user's slot.
	Find(uid schema.UID, device schema.DeviceID, flag schema.Flag) (r schema.Route, by schema.Target, ok bool)
	// Push does what the message would do that it is given; false where To is not here. Acks is nil
	// where no acknowledgements follow.
	Push(m *schema.Push) (results []schema.PushResult, acks <-chan []schema.PushResult, ok bool)
}

// WithLocal has messages to sessions of gateways in this process written without a NATS message,
// with the same checks and the same results. Where a push names the device (and the flag, unless
// the conflict policy allows a user but one session), those gateways are asked first, and who is
// found there is not looked up.
func WithLocal(l Local) Option { return func(s *settings) { s.local = l } }

// whereTo gives where the recipients of a push are: by the gateways in this process where these are
// sure, else as where does. Cached says of whom the cache told; nil where of nobody.
func (d *Delivery) whereTo(ctx context.Context, uids []schema.UID, c *call) (found []Found, cached []bool, err error) {
	if d.s.local == nil || c.filter.device == "" {
		return d.where(ctx, uids, c.await)
	}
	if _, err := d.open(ctx); err != nil {
		found, err = notOpen(uids, err)
		return found, nil, err
	}
	found = make([]Found, len(uids))
	var rest []schema.UID
	var at []int
	for i, uid := range uids {
		r, by, ok := d.s.local.Find(uid, c.filter.device, c.filter.flag)
		if !ok {
			rest, at = append(rest, uid), append(at, i)
			continue
		}
		found[i] = Found{UID: uid, State: schema.Online, Target: by, Routes: []schema.Route{r}}
	}
	d.meter.foundLocally(len(uids) - len(rest))
	if len(rest) == 0 {
		return found, nil, nil
	}
	asked, known, err := d.where(ctx, rest, c.await)
	if err != nil {
		return nil, nil, err
	}
	cached = make([]bool, len(uids))
	for k, f := range asked {
		found[at[k]], cached[at[k]] = f, known != nil && known[k]
	}
	return found, cached, nil
}

// pushOut brings a message to its gateway, here or by NATS. Acks follow to a first parcel that
// waits for them, which is alone then.
func (d *Delivery) pushOut(ctx context.Context, msg *schema.Push, first *parcel) (results []schema.PushResult, acks <-chan []schema.PushResult, err error) {
	if d.s.local != nil {
		if results, acks, ok := d.s.local.Push(msg); ok {
			d.meter.carried(wayLocal, len(results))
			return results, acks, nil
		}
	}
	if first.waits() {
		results, acks, err = d.mesh.client.PushForAcks(ctx, msg)
	} else {
		results, err = d.mesh.client.Push(ctx, msg)
	}
	d.meter.carried(wayRemote, len(results))
	return results, acks, err
}
