package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestDrainOneOfSeveral drains an authority of two, and then a gateway of two, each by two operators at
// once. The authority's slots move while nobody is said to be offline, and no socket notices; the
// gateway's users move, and no event says that one was offline.
func TestDrainOneOfSeveral(t *testing.T) {
	m := newMesh(t, steady...)
	draining := m.startGateway("gw-3", "127.0.0.1:0", "--drain-wait", "2s")
	draining.serves()
	other := m.gateways[0]
	offline := m.offlines()
	r := m.roam(100, draining, other)

	m.eventually("the bucket is not young any more", func() bool { return time.Since(m.made) > 6500*time.Millisecond })

	p := m.probe(r.uids)
	m.drain("a-1", 2)
	require.Zero(t, m.authorities[0].Wait())
	m.eventually("all slots are the other's", func() bool {
		return !slices.ContainsFunc(m.slots(), func(s schema.SlotStatus) bool { return s.Owner != "a-2" })
	})
	looks := p.stop()
	t.Logf("authority drained; look-ups of %d users: %s", len(r.uids), window(looks, looks[0].begun))
	for _, l := range looks {
		require.NoError(t, l.err)
		require.Empty(t, l.offline, "connected users were said to be offline")
	}
	require.Zero(t, r.ended.Load(), "no socket closes for an authority")

	require.NotZero(t, r.at(draining))
	begun := time.Now()
	m.drain("gw-3", 2)
	require.Zero(t, draining.Wait())
	m.eventually("all have moved", func() bool { return r.at(other) == len(r.uids) })
	t.Logf("gateway drained, all its users moved after %v", time.Since(begun).Round(time.Millisecond))
	m.eventually("all are shown where they are", func() bool {
		for _, u := range m.found(r.uids) {
			if u.State != schema.Online || len(u.Routes) != 1 || u.Routes[0].Node != "gw-1" {
				return false
			}
		}
		return true
	})
	m.eventually("a grace has passed", func() bool { return time.Since(begun) > 8*time.Second })
	require.Empty(t, offline(), "who is back in time was never offline")
	for code := range r.codes() {
		require.Equal(t, schema.CloseGoingAway, code)
	}

	result := process.Run(t, m.nats.As(deploy.Operator), "", "drain", "gw-3")
	require.Equal(t, app.ExitFailed, result.Code)
	require.Contains(t, result.Err, "no process is called gw-3")
}

// drain has some operators drain a node at once. One of them at least sees it end; others may have come
// when all was over.
func (m *mesh) drain(node string, times int) {
	m.t.Helper()
	results := make(chan process.Result, times)
	var wg sync.WaitGroup
	for range times {
		wg.Go(func() { results <- process.Run(m.t, m.nats.As(deploy.Operator), "", "drain", node) })
	}
	wg.Wait()
	close(results)
	ended := 0
	for r := range results {
		if r.Code != 0 {
			require.Regexp(m.t, "no process is called "+node+"|"+node+" is not there any more", r.Err)
			continue
		}
		require.Contains(m.t, r.Out, node+" has ended")
		ended++
	}
	require.NotZero(m.t, ended)
}

// offlines hears all events from now on; what it gives tells who was said to be offline.
func (m *mesh) offlines() func() []schema.UID {
	m.t.Helper()
	var mu sync.Mutex
	var list []schema.UID
	_, err := m.backend.Subscribe(subjects.Prefix("").AllEvents(), func(msg *nats.Msg) {
		var e schema.Event
		if json.Unmarshal(msg.Data, &e) == nil && e.Type == schema.EventOffline {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, e.UID)
		}
	})
	require.NoError(m.t, err)
	require.NoError(m.t, m.backend.Flush())
	return func() []schema.UID {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// roamers are users whose devices reconnect, to each of some gateways in turn, as behind a balancer.
type roamers struct {
	uids    []schema.UID
	devices []*client.Client
	ended   atomic.Int32 // connections

	mu   sync.Mutex
	seen map[schema.CloseCode]int
}

// roam connects users and waits until all are in.
func (m *mesh) roam(n int, gateways ...*gateway) *roamers {
	m.t.Helper()
	r := &roamers{seen: map[schema.CloseCode]int{}}
	for i := range n {
		turn := i
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			turn++
			return (&net.Dialer{}).DialContext(ctx, network, gateways[turn%len(gateways)].address)
		}
		r.uids = append(r.uids, schema.UID(fmt.Sprint("roamer ", i)))
		d, err := client.New(client.Config{
			URL: "ws://balancer/ws", Token: client.FixedToken(string(r.uids[i])), Device: phone, OnState: r.note,
			BackoffLeast: 50 * time.Millisecond, BackoffMost: 200 * time.Millisecond,
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		})
		require.NoError(m.t, err)
		r.devices = append(r.devices, d)
		m.running.Go(func() { _ = d.Run(m.devices) }) // how it ends is noted
	}
	m.eventually("all are in", func() bool { return r.at(gateways...) == n })
	return r
}

func (r *roamers) note(s client.State) {
	lost, ok := errors.AsType[*client.LostError](s.Err)
	if !ok || lost.Status != 0 {
		return
	}
	r.ended.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[lost.Code]++
}

// codes gives how connections have ended that had come about.
func (r *roamers) codes() map[schema.CloseCode]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.seen)
}

// at counts the devices that are connected to some gateways.
func (r *roamers) at(gateways ...*gateway) (n int) {
	for _, d := range r.devices {
		info, ok := d.Session()
		for _, g := range gateways {
			if ok && string(info.Gateway.Node) == g.node {
				n++
			}
		}
	}
	return n
}
