package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Options say what stands when a test begins. The zero value is one authority, two gateways, and
// delivery with its service, at the default settings.
type Options struct {
	Authorities int                   // a-1, a-2, ..., each with its share of the slots. Default 1
	Gateways    int                   // gw-1, gw-2, ... Default 2
	Config      func(*schema.Config)  // changes the mesh's settings
	Gateway     func(*gateway.Config) // changes each gateway's configuration
	Server      bubble.Options        // of the NATS server
	Disk        bool                  // the bucket outlives its server
	// Bare starts nothing: the test does, and no authority takes itself for the only one ever.
	Bare bool
}

// Prompt is a Config by which an offline event is published at once: for tests of when a session ends,
// and of that no offline is invented which a grace would hide.
func Prompt(c *schema.Config) { c.GraceMS = 0 }

// Mesh is a running mesh. Its Delivery is the backend's.
type Mesh struct {
	*delivery.Delivery

	// static
	T           *testing.T
	Server      *bubble.Server
	Asker       *bubble.Link         // delivery's link
	Metrics     *prometheus.Registry // delivery's
	Outsider    *nats.Conn           // asks and listens; no part of the mesh
	Authorities []*Authority
	Gateways    []*Gateway
	options     Options
	config      schema.Config
	bucket      *lease.Bucket // of the first process

	names atomic.Uint64 // of what was given one

	mu      sync.Mutex
	clients map[Client]struct{}
}

// Run runs a test on a mesh in a bubble.
func Run(t *testing.T, o Options, test func(t *testing.T, m *Mesh)) {
	t.Helper()
	bubble.RunWith(t, o.Server, func(t *testing.T, s *bubble.Server) {
		m := &Mesh{T: t, Server: s, options: o, config: schema.DefaultConfig(), Metrics: prometheus.NewRegistry(), clients: map[Client]struct{}{}}
		if o.Config != nil {
			o.Config(&m.config)
		}
		if !o.Bare {
			m.raise()
		}
		t.Cleanup(m.forgetAll)
		test(t, m)
	})
}

// raise starts the processes, and waits until each knows of the others and all slots are served.
func (m *Mesh) raise() {
	m.T.Helper()
	for i := range cmp.Or(m.options.Authorities, 1) {
		m.StartAuthority(schema.NodeID(fmt.Sprintf("a-%d", i+1)))
	}
	m.StartDelivery()
	m.Settled(time.Minute)
	for i := range cmp.Or(m.options.Gateways, 2) {
		m.StartGateway(schema.NodeID(fmt.Sprintf("gw-%d", i+1)))
	}
	m.Served(10 * time.Second)
}

// StartDelivery starts delivery with its service, and who is outside.
func (m *Mesh) StartDelivery() {
	m.T.Helper()
	nc, link := m.Server.Dial("delivery/d-1")
	m.Asker = link
	var err error
	m.Delivery, err = delivery.New(nc, delivery.WithMetrics(m.Metrics))
	require.NoError(m.T, err)
	m.T.Cleanup(m.Delivery.Close)
	bubble.Go(m.T, delivery.NewService(m.Delivery, delivery.ServiceConfig{}).Run)
	m.Outsider, _ = m.Server.Dial("outsider")
}

// Served waits until every slot can say that a user is offline, and fails the test where that is
// not so within d.
func (m *Mesh) Served(d time.Duration) {
	m.T.Helper()
	m.shared(d, func(map[schema.NodeID]int) bool { return true })
}

// Settled is Served, and waits until each living authority has its share of the slots.
func (m *Mesh) Settled(d time.Duration) {
	m.T.Helper()
	m.shared(d, func(shares map[schema.NodeID]int) bool {
		counts := slices.Collect(maps.Values(shares))
		return slices.Max(counts)-slices.Min(counts) <= 1
	})
}

// Shares counts the slots of each living authority.
func (m *Mesh) Shares() map[schema.NodeID]int {
	m.T.Helper()
	shares, _ := m.shares()
	return shares
}

func (m *Mesh) shared(d time.Duration, as func(map[schema.NodeID]int) bool) {
	m.T.Helper()
	late := time.Now().Add(d)
	for {
		if shares, served := m.shares(); served && as(shares) {
			return
		}
		require.True(m.T, time.Now().Before(late), "slots are not served as they should be within %v", d)
		m.Pass(200 * time.Millisecond)
	}
}

// shares gives the slots of each living authority, and whether all slots are served.
func (m *Mesh) shares() (shares map[schema.NodeID]int, served bool) {
	said, err := m.Slots(context.Background())
	shares, served = map[schema.NodeID]int{}, err == nil && len(said.Slots) == schema.Slots
	for _, p := range said.Processes {
		if p.Role == string(lease.Authority) && p.State == schema.StateServing {
			shares[p.Node] = 0
		}
	}
	for _, s := range said.Slots {
		served = served && s.State == schema.SlotReady
		shares[s.Owner]++
	}
	return shares, served
}

// Bucket is the mesh's bucket, as an operator has it.
func (m *Mesh) Bucket() *lease.Bucket { return m.bucket }

// Configure changes the mesh's settings, and waits until all have heard of it.
func (m *Mesh) Configure(change func(*schema.Config)) {
	m.T.Helper()
	_, err := m.bucket.Configure(m.T.Context(), func(c *schema.Config) error { change(c); return nil })
	require.NoError(m.T, err)
	time.Sleep(time.Second)
}

// Overwrite writes a key of the bucket as an operator's mistake would: whatever it says now.
func (m *Mesh) Overwrite(key string, value any) {
	m.T.Helper()
	body, err := json.Marshal(value)
	require.NoError(m.T, err)
	m.Request(subjects.Prefix("").BucketKey(key), body)
}

// Call asks the service presence, as a backend in any language does. A micro error comes back as
// its code and sentence.
func (m *Mesh) Call(call string, request, reply any) (code, sentence string) {
	m.T.Helper()
	body, ok := request.([]byte)
	if !ok {
		var err error
		body, err = json.Marshal(request)
		require.NoError(m.T, err)
	}
	msg := m.Request(subjects.Prefix("").ServiceCall(call), body)
	if code = msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return code, msg.Header.Get(micro.ErrorHeader)
	}
	require.NoError(m.T, json.Unmarshal(msg.Data, reply), "%s", msg.Data)
	return "", ""
}

// Request asks a subject, and fails the test where nobody answers in 5 s.
func (m *Mesh) Request(subject string, body []byte) *nats.Msg {
	m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	msg, err := m.Outsider.RequestWithContext(ctx, subject, body)
	require.NoError(m.T, err, "request to %s", subject)
	return msg
}

// Await waits in virtual time until cond holds, and fails the test when it does not within d.
func (m *Mesh) Await(d time.Duration, what string, cond func() bool) {
	m.T.Helper()
	bubble.Until(m.T, d, what, cond)
}

// Pass lets virtual time go by.
func (m *Mesh) Pass(d time.Duration) { time.Sleep(d) }

// Still waits until nothing moves any more but by time, and lets none go by.
func (m *Mesh) Still() { synctest.Wait() }

// name makes a name that nothing else in the test has.
func (m *Mesh) name(what string) string { return what + "-" + strconv.FormatUint(m.names.Add(1), 10) }
