package lease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// within bounds what takes a few seconds of real time on busy cores: an election.
const within = 60 * time.Second

// cluster starts three servers on loopback: raft needs real routes, so this one test runs in real
// time.
func cluster(t *testing.T) []*server.Server {
	t.Helper()
	ports := freePorts(t, 3)
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	}
	var all []*server.Server
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i+1), Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		all = append(all, s)
	}
	for _, s := range all {
		require.True(t, s.ReadyForConnections(within))
	}
	require.Eventually(t, func() bool {
		for _, s := range all {
			if s.JetStreamIsLeader() {
				return true
			}
		}
		return false
	}, within, 10*time.Millisecond)
	return all
}

// freePorts are different ones: none is free again before all are chosen.
func freePorts(t *testing.T, n int) (list []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		list = append(list, l.Addr().(*net.TCPAddr).Port)
	}
	return list
}

func openAt(t *testing.T, s *server.Server) (*nats.Conn, *lease.Bucket, *lease.View) {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	b, err := lease.Open(t.Context(), nc, lease.Options{Create: true, Replicas: 3})
	require.NoError(t, err)
	v := lease.NewView(b, nil)
	bubbleGo(t, v.Run)
	<-v.Ready()
	return nc, b, v
}

func TestReplicatedBucket(t *testing.T) {
	servers := cluster(t)
	var conns []*nats.Conn
	var buckets []*lease.Bucket
	var views []*lease.View
	for _, s := range servers {
		nc, b, v := openAt(t, s)
		conns, buckets, views = append(conns, nc), append(buckets, b), append(views, v)
	}
	me := []schema.Process{{Node: "a-1", Boot: schema.NewBoot()}, {Node: "a-2", Boot: schema.NewBoot()}, {Node: "a-3", Boot: schema.NewBoot()}}
	won, codes := claimAll(t, buckets, me)
	t.Logf("conflicts by API code: %v", codes)
	for s, winner := range won {
		for _, v := range views {
			require.NoError(t, v.Refresh(t.Context()))
			target, _ := v.Target(s)
			require.Equal(t, winner, target)
		}
	}
	buryOne(t, buckets, views)
	loseLeader(t, servers, conns, buckets, views)
}

// buryOne purges the key of a dead process, which is the last message of the bucket: nobody takes that for
// a log that has lost its tail, and no replica keeps anything of it.
func buryOne(t *testing.T, buckets []*lease.Bucket, views []*lease.View) {
	h := lease.NewHolder(buckets[0], views[0], lease.HolderConfig{Role: lease.Gateway, Node: "pod-1"})
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, h.Run(ctx, func(life context.Context, _ schema.Process) error {
		stop()
		<-life.Done()
		return nil
	}))
	require.NoError(t, views[0].Refresh(t.Context()))
	dead := views[0].Members(lease.Gateway)
	require.Len(t, dead, 1)
	require.False(t, dead[0].Alive())
	require.NoError(t, views[0].Bury(t.Context(), dead[0]))
	for _, v := range views {
		before := v.Revision()
		require.NoError(t, v.Refresh(t.Context()))
		require.Empty(t, v.Members(lease.Gateway))
		require.GreaterOrEqual(t, v.Revision(), max(before, dead[0].Revision))
	}
	me := schema.Process{Node: "a-1", Boot: schema.NewBoot()}
	fence, err := buckets[1].Claim(t.Context(), 200, 0, me)
	require.NoError(t, err)
	require.Greater(t, fence, dead[0].Revision, "revisions only grow")
}

// claimAll has three processes claim the same slots at once, and gives what each slot's winner was
// told, and what the losers were.
func claimAll(t *testing.T, buckets []*lease.Bucket, me []schema.Process) (map[schema.Slot]schema.Target, map[jetstream.ErrorCode]int) {
	var mu sync.Mutex
	won, codes := map[schema.Slot]schema.Target{}, map[jetstream.ErrorCode]int{}
	var wg sync.WaitGroup
	for s := range schema.Slot(32) {
		for i, b := range buckets {
			wg.Go(func() {
				fence, err := b.Claim(t.Context(), s, 0, me[i])
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					if _, twice := won[s]; twice {
						t.Errorf("slot %d has two winners", s)
					}
					won[s] = schema.Target{Slot: s, Fence: fence, Authority: me[i]}
					return
				}
				if !errors.Is(err, lease.ErrConflict) {
					t.Errorf("slot %d: %v", s, err)
				}
				if api, ok := errors.AsType[*jetstream.APIError](err); ok {
					codes[api.ErrorCode]++
				}
			})
		}
	}
	wg.Wait()
	require.Len(t, won, 32)
	return won, codes
}

// loseLeader stops the server that leads the stream: nobody loses a lease, and renewals go on when
// another leads.
func loseLeader(t *testing.T, servers []*server.Server, conns []*nats.Conn, buckets []*lease.Bucket, views []*lease.View) {
	js, err := jetstream.New(conns[0])
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), prefix.BucketStream())
	require.NoError(t, err)
	leader := 0
	for i, s := range servers {
		if s.Name() == stream.CachedInfo().Cluster.Leader {
			leader = i
		}
	}
	var holders []*lease.Holder
	ended := make(chan error, len(servers))
	taken := make(chan schema.Process, len(servers))
	for i, b := range buckets {
		h := lease.NewHolder(b, views[i], lease.HolderConfig{Role: lease.Gateway, Node: schema.NodeID(servers[i].Name())})
		holders = append(holders, h)
		bubble.Go(t, func(ctx context.Context) error {
			return h.Run(ctx, func(life context.Context, me schema.Process) error {
				taken <- me
				<-life.Done()
				if ctx.Err() == nil {
					ended <- context.Cause(life)
				}
				return nil
			})
		})
		<-taken
	}
	servers[leader].Shutdown()
	after := time.Now()
	for _, h := range holders {
		require.Eventually(t, func() bool { return h.Renewed().After(after) }, within, 10*time.Millisecond)
		require.True(t, h.Trusted())
	}
	require.Empty(t, ended)
}
