package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	pushGateways = 10
	recipients   = 1000
)

// BenchmarkPush measures look-up and push of one message to many sessions on several gateways:
// once with the sockets held back, which leaves what the mesh does, and once with sockets that take
// all and do nothing with it, which adds the sessions' writers.
func BenchmarkPush(b *testing.B) {
	s := newStage(b)
	gateways := spawn(b, "gateways", s.nats.address, strconv.Itoa(pushGateways), strconv.Itoa(recipients/pushGateways))
	nc := connect(b, s.nats.address, deploy.Delivery)
	d, err := delivery.New(nc)
	require.NoError(b, err)
	b.Cleanup(d.Close)

	uids := make([]schema.UID, recipients)
	for i := range uids {
		uids[i] = mutes(i)
	}
	push := func(n int) error {
		for range n {
			if err := reach(d, uids); err != nil {
				return err
			}
		}
		return nil
	}
	until(b, "everybody is reached", func() bool { return push(1) == nil })
	raw := s.bare(sizeOf(b, nc, push))
	row := comparison{
		name: "look-up and push to 1,000 on 10 gateways", unit: "recipient", units: recipients, act: push,
		procs: []*child{s.nats, s.authority, gateways}, raw: raw, rawProcs: s.rawProcs(), limit: limit{micros: 1.8},
		before: func() error { return s.gate("hold") }, after: func() error { return s.gate("open") },
	}
	b.Run("queued", row.run)
	row.name, row.limit, row.before, row.after = "the same, written to a socket without a network", limit{}, nil, nil
	b.Run("written", row.run)
}

func (s *stage) gate(word string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err := s.raw.RequestWithContext(ctx, gateSubject, []byte(word))
	return err
}

func reach(d *delivery.Delivery, uids []schema.UID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pushed, err := d.Push(ctx, delivery.Message{From: "bench", Payload: json.RawMessage(`{"text":"hello there, all of you"}`)}, uids)
	if err != nil {
		return err
	}
	for _, u := range pushed.Users {
		if !u.Reached {
			return fmt.Errorf("%s was not reached: %s, %d routes", u.UID, u.State, len(u.Routes))
		}
	}
	return nil
}
