package ledger

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what should happen at once, on a busy machine.
const patience = 30 * time.Second

// mesh is a mesh in this process.
type mesh struct {
	t         *testing.T
	nats      *app.NATS
	addresses []string     // of the gateways
	lost      atomic.Int32 // connections to NATS: a busy machine can be silent for too long
}

func newMesh(t *testing.T) *mesh {
	t.Helper()
	n, err := app.StartNATS(app.NATSConfig{Store: t.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(n.Stop)
	m := &mesh{t: t, nats: n}
	nc := m.connect(deploy.Authority)
	b, view := m.open(nc, true)
	w, err := authority.New(nc, b, view, authority.Config{Node: "a-1", Fresh: true})
	require.NoError(t, err)
	m.run(w.Run)
	for _, node := range []schema.NodeID{"gw-1", "gw-2"} {
		control, push := m.connect(deploy.Gateway), m.connect(deploy.Gateway)
		b, view := m.open(control, false)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		g, err := gateway.New(gateway.Conns{Control: control, Push: push}, b, view, gateway.Config{
			Node: node, Auth: gateway.Insecure{}, Listeners: []gateway.Listener{{Name: "ws", Listener: l}}, Drain: gateway.Drain{Rate: 1 << 20},
		})
		require.NoError(t, err)
		m.run(g.Run)
		m.eventually("gateway lives", func() bool { return g.Ready() == nil })
		m.addresses = append(m.addresses, l.Addr().String())
	}
	return m
}

func (m *mesh) connect(u deploy.User) *nats.Conn {
	m.t.Helper()
	nc, err := nats.Connect("", append(m.nats.Options(u), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // not to stderr
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				m.lost.Add(1)
			}
		}))...)
	require.NoError(m.t, err)
	m.t.Cleanup(nc.Close)
	return nc
}

func (m *mesh) open(nc *nats.Conn, create bool) (*lease.Bucket, *lease.View) {
	m.t.Helper()
	b, err := lease.Open(m.t.Context(), nc, lease.Options{Create: create})
	require.NoError(m.t, err)
	view := lease.NewView(b, nil)
	m.run(view.Run)
	<-view.Ready()
	return b, view
}

// run runs something until the test ends.
func (m *mesh) run(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f(ctx) }) // how it ends is not what is tested
	m.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (m *mesh) delivery(options ...delivery.Option) *delivery.Delivery {
	m.t.Helper()
	d, err := delivery.New(m.connect(deploy.Delivery), options...)
	require.NoError(m.t, err)
	m.t.Cleanup(d.Close)
	m.eventually("delivery knows", func() bool {
		slots, err := d.Slots(m.t.Context())
		if err != nil {
			return false
		}
		for _, s := range slots.Slots {
			if s.State != schema.SlotReady {
				return false
			}
		}
		return true
	})
	return d
}

// eventually waits for what should become so at once.
func (m *mesh) eventually(what string, is func() bool) {
	m.t.Helper()
	process.Eventually(m.t, patience, what, is)
}
