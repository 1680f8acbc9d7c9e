package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// clients keeps WebSocket clients connected that say nothing more, once they watch the users named.
// args: the gateway's URL, how many, users.
func clients(ctx context.Context, args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var watched []schema.UID
	for _, uid := range args[2:] {
		watched = append(watched, schema.UID(uid))
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const together = 64 // that are on their way in at a time
	turns := make(chan struct{}, together)
	in := make(chan error, count)
	for i := range count {
		turns <- struct{}{}
		c, err := ws.New(ws.Config{URL: args[0], Token: token(name("idle", i)), Device: "d"})
		if err != nil {
			return err
		}
		running.Go(func() { c.Run(ctx) })
		running.Go(func() { in <- enter(ctx, c, watched); <-turns })
	}
	for range count {
		if err := <-in; err != nil {
			return err
		}
	}
	ready(args[0])
	<-ctx.Done()
	return nil
}

// enter waits until a client is connected and watches.
func enter(ctx context.Context, c *ws.Client, watched []schema.UID) error {
	if err := c.Ready(ctx); err != nil || len(watched) == 0 {
		return err
	}
	return c.Watch(ctx, watched...)
}

func token(uid schema.UID) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return string(uid), nil }
}

// startGateway starts the product's gateway and gives its WebSocket URL.
func (s *stage) startGateway(b *testing.B) (*child, string) {
	b.Helper()
	address := freeAddress(b)
	g := spawn(b, "rollcall", "gateway", "--nats", url(s.nats.address, deploy.Gateway), "--node", "gw", "--listen", address, "--auth", "insecure", "--log-level", "warn")
	return g, "ws://" + address + "/ws"
}

// BenchmarkSockets measures a gateway's memory, a push's way to a client, and what watchers cost.
func BenchmarkSockets(b *testing.B) {
	s := newStage(b)
	g, url := s.startGateway(b)
	b.Run("push", func(b *testing.B) { s.pushOne(b, url) })
	b.Run("push-64-callers", func(b *testing.B) { s.pushMany(b, url) })
	b.Run("watched", func(b *testing.B) { s.watched(b, g, url) })
	b.Run("idle", func(b *testing.B) { s.idle(b, g, url) })
}

// pushOne measures how long a push takes from the call to the client, one at a time.
func (s *stage) pushOne(b *testing.B, url string) {
	const uid, count = schema.UID("solo"), 2000
	got := make(chan struct{}, 1)
	c, err := ws.New(ws.Config{URL: url, Token: token(uid), Device: "d", OnMessage: func(ws.Message) { got <- struct{}{} }})
	require.NoError(b, err)
	background(b, c.Run)
	require.NoError(b, c.Ready(b.Context()))
	nc := connect(b, s.nats.address, deploy.Delivery)
	d, err := delivery.New(nc)
	require.NoError(b, err)
	b.Cleanup(d.Close)
	payload := json.RawMessage(`{"text":"hello there"}`)
	push := func(n int) error {
		for range n {
			pushed, err := d.Push(context.Background(), delivery.Message{Payload: payload}, []schema.UID{uid})
			if err != nil || !pushed.Users[0].Reached {
				return fmt.Errorf("not reached: %+v %w", pushed, err)
			}
			<-got
		}
		return nil
	}
	until(b, "the client is reached", func() bool { return push(1) == nil })
	raw := s.bare(sizeOf(b, nc, push))
	var ours, bare []time.Duration
	for b.Loop() {
		for range count {
			ours, bare = append(ours, timed(b, push)), append(bare, timed(b, raw))
		}
	}
	us, raws := median(ours), median(bare)
	r := row{name: "push to one WebSocket client, one at a time", cost: fmt.Sprintf("p50 %.0f us, p99 %.0f us", micros(us), micros(ours[len(ours)*99/100])),
		raw: fmt.Sprintf("p50 %.0f us, p99 %.0f us", micros(raws), micros(bare[len(bare)*99/100]))}
	r.judge(micros(us), 1.5*micros(raws)+100, "us")
	results.add(r)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(us), "us-p50")
	b.ReportMetric(micros(raws), "us-p50/raw")
}

// pushMany measures the same with many callers, each with a client of its own.
func (s *stage) pushMany(b *testing.B, url string) {
	const callers, each = 64, 100
	d, err := delivery.New(connect(b, s.nats.address, deploy.Delivery))
	require.NoError(b, err)
	b.Cleanup(d.Close)
	var uids []schema.UID
	var got []chan struct{}
	for i := range callers {
		arrived := make(chan struct{}, 1)
		uids, got = append(uids, name("busy", i)), append(got, arrived)
		c, err := ws.New(ws.Config{URL: url, Token: token(uids[i]), Device: "d", OnMessage: func(ws.Message) { arrived <- struct{}{} }})
		require.NoError(b, err)
		background(b, c.Run)
		require.NoError(b, c.Ready(b.Context()))
	}
	message := delivery.Message{Payload: json.RawMessage(`{"text":"hello there"}`)}
	var took [callers][]time.Duration
	push := parallel(callers, func(caller, _ int) error {
		start := time.Now()
		pushed, err := d.Push(context.Background(), message, uids[caller:caller+1])
		if err != nil || !pushed.Users[0].Reached {
			return fmt.Errorf("not reached: %+v %w", pushed, err)
		}
		<-got[caller]
		took[caller] = append(took[caller], time.Since(start))
		return nil
	})
	until(b, "the clients are reached", func() bool { return push(callers) == nil })
	var rates []time.Duration // of one push, all callers together
	for b.Loop() {
		for range rounds {
			start := time.Now()
			require.NoError(b, push(callers*each))
			rates = append(rates, time.Since(start)/(callers*each))
		}
	}
	all := slices.Concat(took[:]...)
	us := median(all)
	results.add(row{name: fmt.Sprintf("the same, %d callers, a client each", callers), cost: fmt.Sprintf("p50 %.0f us, p99 %.0f us", micros(us), micros(all[len(all)*99/100])),
		rate: fmt.Sprintf("%.0f pushes/s", 1/median(rates).Seconds())})
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(us), "us-p50")
}

func timed(b *testing.B, a act) time.Duration {
	start := time.Now()
	require.NoError(b, a(1))
	return time.Since(start)
}

// median sorts d.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// idle measures what a connection takes that does nothing.
func (s *stage) idle(b *testing.B, g *child, url string) {
	const count = 5000
	before := g.rss(b)
	for b.Loop() {
		spawn(b, "clients", url, strconv.Itoa(count))
	}
	each := float64(g.rss(b)-before) / count
	results.add(row{name: fmt.Sprintf("%d idle connections", count), cost: fmt.Sprintf("%.1f KiB RSS of the gateway each", each/1024)})
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each, "B-rss/connection")
}
