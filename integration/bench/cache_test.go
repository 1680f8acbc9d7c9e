package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// BenchmarkCache measures what the route cache saves: the same calls for the same 1,000 users over
// and over, with it and without, in turn.
func BenchmarkCache(b *testing.B) {
	s := newStage(b)
	gateways := spawn(b, "gateways", s.nats.address, strconv.Itoa(pushGateways), strconv.Itoa(recipients/pushGateways))
	uids := make([]schema.UID, recipients)
	for i := range uids {
		uids[i] = mutes(i)
	}
	var sides [2]*delivery.Delivery // without, with
	for i, users := range [...]int{0, 2 * recipients} {
		d, err := delivery.New(connect(b, s.nats.address, deploy.Delivery), delivery.WithCache(users))
		require.NoError(b, err)
		b.Cleanup(d.Close)
		until(b, "everybody is reached", func() bool { return reach(d, uids) == nil })
		sides[i] = d
	}
	procs := []*child{s.nats, s.authority, gateways}
	look := func(d *delivery.Delivery) error { return seen(d, uids) }
	b.Run("lookup", func(b *testing.B) { s.gain(b, "look-up of 1,000 hot uids, cached", sides, procs, look, false) })
	push := func(d *delivery.Delivery) error { return reach(d, uids) }
	b.Run("push", func(b *testing.B) {
		s.gain(b, "push to 1,000 hot users on 10 gateways, cached", sides, procs, push, true)
	})
}

func seen(d *delivery.Delivery, uids []schema.UID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := d.Lookup(ctx, uids)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.State != schema.Online || len(f.Routes) != 1 {
			return fmt.Errorf("%s is %s with %d routes: %s", f.UID, f.State, len(f.Routes), f.Why)
		}
	}
	return nil
}

// gain measures both sides in turn and puts the row into results; held says that the sockets take
// nothing meanwhile.
func (s *stage) gain(b *testing.B, name string, sides [2]*delivery.Delivery, procs []*child, one func(*delivery.Delivery) error, held bool) {
	acts, counts, got := [2]act{}, [2]int{}, [2][]measured{}
	for i, d := range sides {
		acts[i] = func(n int) error {
			for range n {
				if err := one(d); err != nil {
					return err
				}
			}
			return nil
		}
		counts[i] = fit(b, acts[i])
	}
	for b.Loop() {
		for range rounds {
			for i := range sides {
				if held {
					require.NoError(b, s.gate("hold"))
				}
				got[i] = append(got[i], once(b, acts[i], counts[i], recipients, procs))
				if held {
					require.NoError(b, s.gate("open"))
				}
			}
		}
	}
	without, with := sorted(got[0])[len(got[0])/2], sorted(got[1])[len(got[1])/2]
	c := comparison{procs: procs}
	results.add(row{
		name: name, cost: fmt.Sprintf("%.2f us a user", micros(with.cpu)), parts: c.parts(with), rate: fmt.Sprintf("%.0f users/s", with.rate),
		raw:     fmt.Sprintf("without: %.2f us a user, %.0f users/s", micros(without.cpu), without.rate),
		verdict: fmt.Sprintf("saves %.0f %% of the CPU, %.1f times the rate", 100*(1-float64(with.cpu)/float64(without.cpu)), with.rate/without.rate),
	})
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(with.cpu), "us-cpu/user")
	b.ReportMetric(micros(without.cpu), "us-cpu/user-without")
}
