package delivery

import (
	"context"

	"github.com/rollcall-mesh/rollcall/schema"
)

// awaitAcks takes what the devices say to the parcels that were written, until all have said it,
// their gateways' waits are over, or ctx ends. The lanes go on meanwhile.
func awaitAcks(ctx context.Context, p *plan, parcels []*parcel) {
	for _, x := range parcels {
		if x.acks == nil {
			continue
		}
		select {
		case results := <-x.acks: // none where the gateway was not heard from again
			p.acknowledge(x.at, results)
		case <-ctx.Done():
			return
		}
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
