package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Process are the flags of every long-running role.
type Process struct {
	Node  schema.NodeID `name:"node" placeholder:"NAME" help:"Name of this process, one of its kind in the mesh. Default: the host name, its dots made dashes."`
	Admin string        `name:"admin-listen" placeholder:"ADDR" help:"Where /healthz, /readyz and /metrics are served. Default: nowhere."`
}

// node gives the checked name.
func (p *Process) node() (schema.NodeID, error) {
	if p.Node != "" {
		if err := p.Node.Check(); err != nil {
			return "", fmt.Errorf("%w: --node: %w", errUsage, err)
		}
		return p.Node, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("%w: --node is needed, since the host has no name: %w", errUsage, err)
	}
	n := schema.NodeID(strings.ReplaceAll(host, ".", "-"))
	if err := n.Check(); err != nil {
		return "", fmt.Errorf("%w: --node is needed, since the host's name will not do: %w", errUsage, err)
	}
	return n, nil
}

// process is what the roles of one program share.
type process struct {
	prefix  subjects.Prefix
	log     *slog.Logger
	metrics *prometheus.Registry
	health  *health
	// dialer gives what connects as a user of the server: over the network, or to the server inside
	// this process.
	dialer func(deploy.User) (*dialer, error)
	admin  net.Listener // nil: none
	ends   []func()     // what close does, the last one first
	local  *locals      // the gateways that delivery serves without NATS messages; nil: none
}

// runRole runs what role makes of a role's flags, in a process of its own, until that is ended.
func (s *session) runRole(flags checker, of *Process, role func(*process, schema.NodeID) (part, error)) error {
	if err := flags.check(); err != nil {
		return err
	}
	node, err := of.node()
	if err != nil {
		return err
	}
	p, err := s.newProcess(of.Admin, slog.LevelInfo)
	if err != nil {
		return err
	}
	defer p.close()
	run, err := role(p, node)
	if err != nil {
		return err
	}
	return p.run(s.ctx, run)
}

// newProcess opens the admin listener, so that a port in use is told at once.
func (s *session) newProcess(admin string, otherwise slog.Level) (*process, error) {
	prefix, err := s.cli.prefix()
	if err != nil {
		return nil, err
	}
	p := &process{prefix: prefix, log: s.log(otherwise), metrics: prometheus.NewRegistry(), health: &health{}, dialer: s.cli.dialer}
	if err := errors.Join(p.metrics.Register(collectors.NewGoCollector()),
		p.metrics.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if admin != "" {
		if p.admin, err = p.listen(admin, "--admin-listen"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// listen opens a listener that close closes.
func (p *process) listen(address, flag string) (net.Listener, error) {
	l, err := listen(address, flag)
	if err == nil {
		p.ends = append(p.ends, func() { _ = l.Close() }) // one that its user has closed says so
	}
	return l, err
}

// close ends what was started and opened for the roles, once they have ended.
func (p *process) close() {
	for _, end := range slices.Backward(p.ends) {
		end()
	}
}

// run runs a role, with the admin listener beside it, until ctx ends.
func (p *process) run(ctx context.Context, role part) error {
	if p.admin == nil {
		return together(ctx, role)
	}
	p.log.Info("admin", "listen", p.admin.Addr())
	return together(ctx, role, serveAdmin(p.admin, adminHandler(p.health, p.metrics)))
}

// registerer labels a role's metrics with its node, since a process may run several of a kind.
func (p *process) registerer(role deploy.User, n schema.NodeID) prometheus.Registerer {
	return prometheus.WrapRegistererWith(prometheus.Labels{"role": string(role), "node": string(n)}, p.metrics)
}

// connect waits for NATS and opens the connections of a role, named role/node/boot/c. The boot in
// the name is drawn here, once for the process's life: a connection's name cannot follow the boots
// that the lease draws later.
func (p *process) connect(ctx context.Context, role deploy.User, n schema.NodeID, count int) ([]*nats.Conn, error) {
	d, err := p.dialer(role)
	if err != nil {
		return nil, err
	}
	l, err := newLinks(p.registerer(role, n))
	if err != nil {
		return nil, err
	}
	boot := schema.NewBoot()
	var list []*nats.Conn
	for c := range count {
		nc, err := d.wait(ctx, fmt.Sprintf("%s/%s/%s/%d", role, n, boot, c+1), redialOf(role), l, p.log)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		l.add(nc)
		list = append(list, nc)
	}
	return list, nil
}

func closeAll(list []*nats.Conn) {
	for _, nc := range list {
		nc.Close()
	}
}

// connected is a check of connections.
func connected(list []*nats.Conn) error {
	for _, nc := range list {
		if !nc.IsConnected() {
			return errors.New("not connected to NATS")
		}
	}
	return nil
}

// open waits for the bucket and gives a view of it, which is yet to be run.
func (p *process) open(ctx context.Context, nc *nats.Conn, o lease.Options) (*lease.Bucket, *lease.View, error) {
	o.Prefix, o.Log = p.prefix, p.log
	b, err := lease.Open(ctx, nc, o)
	if err != nil {
		return nil, nil, err
	}
	return b, lease.NewView(b, p.log), nil
}
