package delivery

import (
	"context"
	"errors"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// maxParcels bounds the parcels that wait for one gateway; the recipients of the next are unknown.
const maxParcels = 1024

// parcel is a batch of one push on its way to a gateway, in the lane of that gateway.
type parcel struct {
	ctx   context.Context // the caller's: what its caller does not wait for any more is not sent
	frame schema.PushFrame
	size  int
	at    []int32
	try   int    // how often its sessions were found being set up
	done  func() // does not wait

	// set by the lane before done
	results []schema.PushResult
	acks    <-chan []schema.PushResult // the results once more, where acknowledgements follow
}

// takeParcels gives how many parcels go into one message. One that waits for acknowledgements goes
// alone: what follows on it then waits for no other's devices.
func takeParcels(waiting []*parcel) int {
	recipients, size := 0, 0
	for n, p := range waiting {
		recipients += len(p.at)
		size += p.size
		over := p.waits() || recipients > schema.MaxRecipients || size > schema.MaxPushBytes || n >= schema.MaxFrames
		if over && n > 0 {
			return n
		}
		if p.waits() {
			return 1
		}
	}
	return len(waiting)
}

func (x *parcel) waits() bool { return x.frame.AckWait > 0 }

// carryParcels brings the parcels to their gateway in one message.
func (d *Delivery) carryParcels(ctx context.Context, to schema.Process, parcels []*parcel) {
	msg := &schema.Push{To: to}
	var sent []*parcel
	for _, x := range parcels {
		if x.ctx.Err() != nil {
			x.fail(schema.PushUnknown)
			continue
		}
		sent = append(sent, x)
		msg.Frames = append(msg.Frames, x.frame)
	}
	if len(sent) == 0 {
		return
	}
	results, acks, err := d.pushOut(ctx, msg, sent[0])
	for _, x := range sent {
		switch {
		case err == nil:
			x.results, results = results[:len(x.at)], results[len(x.at):]
			x.acks = acks
			x.done()
		case errors.Is(err, client.ErrGone):
			x.fail(schema.PushOwnerGone)
		default:
			x.fail(schema.PushUnknown)
		}
	}
}

func (x *parcel) fail(r schema.PushResult) {
	x.results = make([]schema.PushResult, len(x.at))
	for i := range x.results {
		x.results[i] = r
	}
	x.done()
}
