package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
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
	Authorities int                   // a-1, a-2, ...; the first owns every slot. Default 1
	Gateways    int                   // gw-1, gw-2, ... Default 2
	Config      func(*schema.Config)  // changes the mesh's settings
	Gateway     func(*gateway.Config) // changes each gateway's configuration
}

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
	clients []Client
}

// Client is one end of a connection to a gateway: a Device or a Socket.
type Client interface {
	User() schema.UID
	// Current gives the session that the client holds open; false where it holds none.
	Current() (schema.SessionID, bool)
	// Got counts how often a message came.
	Got(id string) int
}

// Run runs a test on a mesh in a bubble.
func Run(t *testing.T, o Options, test func(t *testing.T, m *Mesh)) {
	t.Helper()
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := &Mesh{T: t, Server: s, options: o, config: schema.DefaultConfig(), Metrics: prometheus.NewRegistry()}
		if o.Config != nil {
			o.Config(&m.config)
		}
		m.raise()
		test(t, m)
	})
}

// raise starts the processes, and waits until each knows of the others and all slots are served.
func (m *Mesh) raise() {
	m.T.Helper()
	for i := range cmp.Or(m.options.Authorities, 1) {
		m.StartAuthority(schema.NodeID(fmt.Sprintf("a-%d", i+1)))
	}
	m.startDelivery()
	for i := range cmp.Or(m.options.Gateways, 2) {
		m.StartGateway(schema.NodeID(fmt.Sprintf("gw-%d", i+1)))
	}
}

func (m *Mesh) startDelivery() {
	m.T.Helper()
	nc, link := m.Server.Dial("delivery/d-1")
	m.Asker = link
	var err error
	m.Delivery, err = delivery.New(nc, delivery.WithMetrics(m.Metrics))
	require.NoError(m.T, err)
	m.T.Cleanup(m.Delivery.Close)
	bubble.Go(m.T, delivery.NewService(m.Delivery, delivery.ServiceConfig{}).Run)
	m.Outsider, _ = m.Server.Dial("outsider")
	bubble.Until(m.T, 5*time.Second, "all slots served", m.served)
}

// served reports whether every slot can say that a user is offline.
func (m *Mesh) served() bool {
	said, err := m.Slots(context.Background())
	if err != nil || len(said.Slots) != schema.Slots {
		return false
	}
	for _, s := range said.Slots {
		if s.State != schema.SlotReady {
			return false
		}
	}
	return true
}

// Configure changes the mesh's settings, and waits until all have heard of it.
func (m *Mesh) Configure(change func(*schema.Config)) {
	m.T.Helper()
	_, err := m.bucket.Configure(m.T.Context(), func(c *schema.Config) error { change(c); return nil })
	require.NoError(m.T, err)
	time.Sleep(time.Second)
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

// name makes a name that nothing else in the test has.
func (m *Mesh) name(what string) string { return what + "-" + strconv.FormatUint(m.names.Add(1), 10) }
