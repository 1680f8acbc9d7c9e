package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/cmd/app/page"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/schema"
)

// DemoCmd runs a whole mesh in one process: nats-server, an authority, a gateway a listener, the
// service, and a chat backend.
type DemoCmd struct {
	Listen     []string `name:"listen" default:"127.0.0.1:8080,127.0.0.1:8081" placeholder:"ADDR" help:"A gateway listens on each, with the page. Default: 127.0.0.1:8080 and 8081."`
	NATSListen string   `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Where its NATS server listens. Whoever gives no credentials is the operator. Default: 127.0.0.1:4222."`
	Admin      string   `name:"admin-listen" default:"127.0.0.1:8090" placeholder:"ADDR" help:"Where /healthz, /readyz and /metrics are served. Default: 127.0.0.1:8090."`
	Data       string   `name:"data" placeholder:"DIR" help:"Where NATS keeps its files; no two demos at a time may have the same. Default: a temporary folder, removed at the end."`
}

// check tells what is wrong with the flags beyond their form.
func (c *DemoCmd) check() error {
	if len(c.Listen) == 0 {
		return fmt.Errorf("%w: --listen names at least one address", errUsage)
	}
	for _, address := range append([]string{c.NATSListen}, c.Listen...) {
		if !loopback(address) {
			return fmt.Errorf("%w: the demo asks nobody for a password: it listens on loopback only, such as 127.0.0.1:PORT, not on %q", errUsage, address)
		}
	}
	return nil
}

// Run runs the demo until it is ended.
func (c *DemoCmd) Run(s *session) error {
	begun := time.Now()
	if err := c.check(); err != nil {
		return err
	}
	store, remove, err := c.store()
	if err != nil {
		return err
	}
	defer remove()
	p, err := s.newProcess(c.Admin, slog.LevelWarn)
	if err != nil {
		return err
	}
	defer p.close()
	gateways, err := c.gateways(p)
	if err != nil {
		return err
	}
	n, err := StartNATS(NATSConfig{Listen: c.NATSListen, Store: store, OpenOperator: true, Log: p.log})
	if err != nil {
		return err
	}
	defer n.Stop()
	p.dialer = n.dialer
	asked, err := p.deliveryRole("d-1", &DeliveryFlags{})
	if err != nil {
		return err
	}
	roles := append(gateways, asked, p.chatRole("chat"))
	welcome := func(ctx context.Context) error {
		if p.health.wait(ctx, len(roles)+1) == nil && p.slotsReady(ctx) == nil {
			c.welcome(s.out, p, n, time.Since(begun))
		}
		<-ctx.Done()
		return nil
	}
	return p.run(s.ctx, func(ctx context.Context) error {
		return onTop(ctx, p.authorityRole("a-1", lease.Options{}, true), p.afterAuthority(append(roles, welcome)...))
	})
}

// store gives the folder of NATS's files, and what removes it where it is a temporary one.
func (c *DemoCmd) store() (dir string, remove func(), err error) {
	if c.Data != "" {
		return filepath.Join(c.Data, "nats"), func() {}, writable(c.Data)
	}
	dir, err = os.MkdirTemp("", "rollcall-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("temporary folder: %w: name one with --data", reason(err))
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}

// gateways opens all listeners and gives what runs a gateway on each.
func (c *DemoCmd) gateways(p *process) ([]part, error) {
	sockets := make([]gateway.Listener, len(c.Listen))
	offered := make([]page.Gateway, len(c.Listen))
	for i, address := range c.Listen {
		l, err := p.listen(address, "--listen")
		if err != nil {
			return nil, err
		}
		sockets[i] = gateway.Listener{Name: "ws", Listener: l}
		offered[i] = page.Gateway{Node: string(gatewayName(i)), URL: "ws://" + l.Addr().String() + "/ws"}
	}
	handler := page.Handler(offered)
	var origins []string // the page of one gateway speaks with the others too
	for i, l := range sockets {
		c.Listen[i] = l.Addr().String()
		origins = append(origins, pageOrigins(c.Listen[i])...)
	}
	parts := make([]part, len(sockets))
	for i, l := range sockets {
		parts[i] = func(ctx context.Context) error {
			return p.runGateway(ctx, gateway.Config{
				Node: gatewayName(i), Listeners: []gateway.Listener{l}, Auth: gateway.Insecure{},
				Page: handler, Origins: origins, Drain: gateway.Drain{Most: stopWithin},
			})
		}
	}
	return parts, nil
}

// pageOrigins gives the patterns of what a browser calls the page at an address of this machine.
func pageOrigins(address string) []string {
	origins := []string{strings.ReplaceAll(address, "[", `\[`)} // of IPv6; a bracket opens a set in a pattern
	if _, port, err := net.SplitHostPort(address); err == nil {
		origins = append(origins, net.JoinHostPort("localhost", port))
	}
	return origins
}

// stopWithin bounds the last words of the demo's gateways: what they hold is of no value.
const stopWithin = 500 * time.Millisecond

// slotsReady waits until every slot can tell who is there and who is not: the roles serve before, and
// would answer the first look-ups with "unknown".
func (p *process) slotsReady(ctx context.Context) error {
	conns, err := p.connect(ctx, deploy.Operator, "welcome", 1)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	a := &asker{nc: conns[0], prefix: p.prefix, ctx: ctx}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var reply schema.SlotsReply
		err := a.call("slots", struct{}{}, &reply, time.Second)
		waiting := func(s schema.SlotStatus) bool { return s.State != schema.SlotReady }
		if err == nil && !slices.ContainsFunc(reply.Slots, waiting) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func gatewayName(i int) schema.NodeID { return schema.NodeID(fmt.Sprintf("gw-%d", i+1)) }

// defaultNATS is where the nats CLI and rollcall look by themselves.
const defaultNATS = "127.0.0.1:4222"

// welcome says where to click and what to try.
func (c *DemoCmd) welcome(w io.Writer, p *process, n *NATS, took time.Duration) {
	var b strings.Builder
	fmt.Fprintf(&b, "rollcall demo: ready in %v\n\nOpen in a browser:\n", took.Round(time.Millisecond))
	for i, address := range c.Listen {
		fmt.Fprintf(&b, "  http://%s/  (gateway %s)\n", address, gatewayName(i))
	}
	server, url := "", ""
	if c.NATSListen != defaultNATS {
		server, url = " -s "+n.URL(), " --nats "+n.URL()
	}
	fmt.Fprintf(&b, "\nThen, in other terminals:\n")
	fmt.Fprintf(&b, "  nats%s sub '%s'\n", server, p.prefix.AllEvents())
	fmt.Fprintf(&b, "  nats%s req %s '{\"uids\":[\"alice\"]}'\n", server, p.prefix.ServiceCall("lookup"))
	fmt.Fprintf(&b, "  %s watch%s alice bob\n", os.Args[0], url)
	fmt.Fprintf(&b, "\nnats-server %s", n.URL())
	if p.admin != nil {
		fmt.Fprintf(&b, ", metrics http://%s/metrics", p.admin.Addr())
	}
	fmt.Fprintf(&b, ". Ctrl-C ends all.\n")
	_, _ = io.WriteString(w, b.String()) // nobody reads it: the demo runs all the same
}
