package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Found is what is known of one user: the state online, offline or unknown, and the routes.
type Found = client.Found

// The waits between two look-ups of AwaitFresh.
const (
	freshFirst = 20 * time.Millisecond
	freshLast  = 250 * time.Millisecond
)

// Lookup tells where the devices of users are, in the order of uids, duplicates included. Who
// could not be found out about is unknown, never offline. It takes any number of uids. The error
// is schema.ErrBad for a uid that is none, or says that the mesh can never be asked.
func (d *Delivery) Lookup(ctx context.Context, uids []schema.UID, options ...CallOption) ([]Found, error) {
	c, err := newCall(d.s.prefix, options)
	if err == nil {
		err = checkUIDs(uids)
	}
	if err != nil {
		return nil, err
	}
	found, _, err := d.where(ctx, uids, c.await)
	return found, err
}

// lookup asks the authorities, whatever is cached.
func (d *Delivery) lookup(ctx context.Context, uids []schema.UID, await time.Duration) ([]Found, error) {
	begun := time.Now()
	m, err := d.open(ctx)
	if err != nil {
		return notOpen(uids, err)
	}
	found := m.client.Lookup(ctx, uids)
	if await > 0 {
		awaitFresh(ctx, m.client.Lookup, found, begun.Add(await))
	}
	d.meter.looked(found, time.Since(begun))
	return found, nil
}

// notOpen is what is known of users without a mesh: nothing yet, or that there will never be one.
func notOpen(uids []schema.UID, err error) ([]Found, error) {
	if errors.Is(err, schema.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nobodyKnows(uids), nil
	}
	return nil, err
}

func nobodyKnows(uids []schema.UID) []Found {
	found := make([]Found, len(uids))
	for i, uid := range uids {
		found[i] = Found{UID: uid, State: schema.Unknown, Why: client.WhyUnreachable}
	}
	return found
}

// awaitFresh looks up again what is not fresh, until all is or the time is over.
func awaitFresh(ctx context.Context, lookup func(context.Context, []schema.UID) []Found, found []Found, until time.Time) {
	for wait := freshFirst; ; wait = min(2*wait, freshLast) {
		at, uids := notFresh(found)
		left := time.Until(until)
		if len(at) == 0 || left <= 0 || lease.Wait(ctx, min(wait, left)) != nil {
			return
		}
		for i, f := range lookup(ctx, uids) {
			if known := &found[at[i]]; f.Target != (schema.Target{}) || known.State == schema.Unknown {
				*known = f // else nobody has answered this time: what was said before stands
			}
		}
	}
}

// notFresh gives the places of what may be incomplete.
func notFresh(found []Found) (at []int, uids []schema.UID) {
	for i := range found {
		if found[i].State == schema.Unknown || found[i].Partial {
			at = append(at, i)
			uids = append(uids, found[i].UID)
		}
	}
	return at, uids
}
