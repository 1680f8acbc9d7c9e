package mesh

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// lifeWait bounds how long a process may take to get its lease: it may have to wait for one that
// held its name.
const lifeWait = 40 * time.Second

// Gateway is a gateway process with one listener, named ws.
type Gateway struct {
	process
	*gateway.Gateway
	Control, Push *bubble.Link
	m             *Mesh
	view          *lease.View
	door          *bubble.Listener

	mu      sync.Mutex
	clients map[*bubble.Link]struct{} // whatever was dialled to it
	dead    bool                      // nobody comes in any more
}

// StartGateway starts one and waits until it takes clients. Who clients are, token tells.
func (m *Mesh) StartGateway(node schema.NodeID) *Gateway {
	m.T.Helper()
	g := &Gateway{m: m, door: bubble.Listen(m.T), clients: map[*bubble.Link]struct{}{}}
	control, controlLink := m.Server.Dial("gateway/" + string(node) + "/control")
	push, pushLink := m.Server.Dial("gateway/" + string(node) + "/push")
	g.Control, g.Push = controlLink, pushLink
	g.process = process{Node: node, links: []*bubble.Link{controlLink, pushLink}}
	config := gateway.Config{
		Node: node, Auth: token{},
		Listeners: []gateway.Listener{{Name: "ws", Listener: g.door}},
	}
	if m.options.Gateway != nil {
		m.options.Gateway(&config)
	}
	g.run = m.start([]*nats.Conn{control, push}, func(b *lease.Bucket, v *lease.View) func(context.Context) error {
		g.view = v
		var err error
		g.Gateway, err = gateway.New(gateway.Conns{Control: control, Push: push}, b, v, config)
		require.NoError(m.T, err)
		return g.Gateway.Run
	})
	m.Gateways = append(m.Gateways, g)
	m.Await(lifeWait, "gateway "+string(node)+" is ready", func() bool { return g.Ready() == nil })
	return g
}

// dial connects a client's link to the gateway's listener.
func (g *Gateway) dial(ctx context.Context, link *bubble.Link) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return nil, net.ErrClosed
	}
	c, err := link.DialTo(g.door)(ctx, "", "")
	if err == nil {
		g.clients[link] = struct{}{}
	}
	return c, err
}

// abandon breaks what is connected to the gateway, so that nothing it still does is seen, and lets
// nobody in any more.
func (g *Gateway) abandon() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
	for l := range g.clients {
		l.Reset()
	}
}

// forget lets go of a client's link.
func (g *Gateway) forget(l *bubble.Link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.clients, l)
}

// Kill ends the gateway as SIGKILL does: server and clients see their connections close.
func (g *Gateway) Kill() {
	g.Cut() // first, or it would still tell of clients that it sees go
	g.abandon()
	g.kill()
}

// Vanish ends it as a machine that loses its network behind a proxy: its clients see their
// connections close, the server is told nothing.
func (g *Gateway) Vanish() {
	g.Cut()
	g.abandon()
	g.vanish()
}

// Me names the gateway's present life, by its key; the zero process where it has none.
func (g *Gateway) Me() schema.Process {
	for _, p := range g.view.Members(lease.Gateway) {
		if p.Process.Node == g.Node && p.Alive() {
			return p.Process
		}
	}
	return schema.Process{}
}

// token authenticates by what the token says: a uid, and after a slash, if any, the generation of
// the login in one digit, as in "alice/2".
type token struct{}

func (token) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Identity, error) {
	gen := schema.Generation(0)
	if n := len(c.Token); n > 2 && c.Token[n-2] == '/' {
		gen = schema.Generation(c.Token[n-1] - '0')
		c.Token = c.Token[:n-2]
	}
	id, err := gateway.Insecure{}.Authenticate(ctx, c)
	id.Gen = gen
	return id, err
}
