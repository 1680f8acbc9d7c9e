package delivery

import (
	"context"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// heardBy gives how long gateways may wait for devices, so that what they have heard by then comes in its
// caller's time: nine tenths of it at most.
func heardBy(ctx context.Context, most time.Duration) time.Duration {
	if end, ends := ctx.Deadline(); ends {
		return max(0, min(most, time.Until(end)/10*9))
	}
	return most
}

// awaitAcks takes what the devices say to the parcels that were written, until all have said it,
// their gateways' waits are over, or ctx ends. The lanes go on meanwhile.
func awaitAcks(ctx context.Context, p *plan, parcels []*parcel) {
	for _, x := range parcels {
		if x.acks != nil {
			p.acknowledge(x.at, x.acked(ctx))
		}
	}
}

// acked gives the results once more, with what the devices have said; none where the gateway was not heard
// from again, or ctx ended before.
func (x *parcel) acked(ctx context.Context) []schema.PushResult {
	select {
	case results := <-x.acks:
		return results
	case <-ctx.Done():
	}
	select {
	case results := <-x.acks:
		return results
	default:
		return nil
	}
}

// acknowledge takes note of which routes have acknowledged. Nothing else changes: what was written
// and is not acknowledged stays written.
func (p *plan) acknowledge(at []int32, results []schema.PushResult) {
	for k, r := range results {
		if r == schema.PushAcked {
			p.routes[at[k]].Result = r
		}
	}
}
