package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// mesh is what is needed of a *client.Client.
type mesh interface {
	Target(context.Context, schema.Slot) (schema.Target, error)
	Register(context.Context, schema.Target, schema.Login) (schema.LoginResult, error)
	Commit(context.Context, schema.Target, schema.Process, schema.CommitEntry) (schema.LoginResult, error)
	Unregister(context.Context, schema.Target, schema.Process, []schema.Leave) ([]schema.Code, error)
	Touch(context.Context, schema.Target, schema.Process, []schema.Touched) ([]schema.TouchException, error)
	Sync(ctx context.Context, t schema.Target, from schema.Process, last bool, routes []schema.Route) (*schema.SyncAnswer, error)
	Kick(context.Context, schema.Process, []schema.KickEntry) ([]schema.Code, error)
	Lookup(context.Context, []schema.UID) []client.Found
}

// view is what is needed of a *lease.View.
type view interface {
	Target(schema.Slot) (schema.Target, bool)
	Highest(schema.Slot) schema.Revision
	Saw(schema.Slot, schema.Revision) (believed bool)
	Reread(ctx context.Context, key string) error
	Config() schema.Config
	Revision() schema.Revision
}

// conn is what is needed of a *nats.Conn.
type conn interface {
	ChanSubscribe(subject string, ch chan *nats.Msg) (*nats.Subscription, error)
	RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
	FlushWithContext(ctx context.Context) error
	StatusChanged(...nats.Status) chan nats.Status
	RemoveStatusListener(chan nats.Status)
}

// holder is what is needed of a *lease.Holder.
type holder interface {
	Run(ctx context.Context, work func(ctx context.Context, me schema.Process) error) error
	Trusted() bool
	Renewed() time.Time
}

// Gateway holds the sockets of users and speaks for them in the mesh.
type Gateway struct {
	// static
	config  Config
	log     *slog.Logger
	control conn // see Conns
	push    conn
	view    view
	mesh    mesh
	holder  holder
	changes func(func(lease.Change)) (cancel func())
	parts   []func(context.Context) error // that run beside the gateway's own loops
	metrics *metrics
	start   time.Time
	base    context.Context // of all sessions; ends when Run has said goodbye to them
	stop    context.CancelFunc

	registry registry
	slots    [schema.Slots]slot
	door     door
	watches  *hub
	since    since
	revoked  revocations

	life     atomic.Pointer[life] // nil: nobody new comes in
	draining atomic.Bool
	depart   func() // begins the drain; set by Run
}

// New makes a gateway that holds its lease in b and knows of the mesh by v, which the caller runs.
// It starts nothing. It returns ErrInsecure, or what is wrong with the config by field.
func New(nc Conns, b *lease.Bucket, v *lease.View, c Config) (*Gateway, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("gateway config: %w", err)
	}
	g := newGateway(nc.Control, nc.Push, v, c)
	authorities := client.New(nc.Control, v, client.Config{Prefix: c.Prefix, Settled: g.settled, Log: c.Log})
	g.mesh = authorities
	g.parts = append(g.parts, authorities.Run)
	g.changes = v.Subscribe
	g.holder = lease.NewHolder(b, v, lease.HolderConfig{
		Role: lease.Gateway, Node: c.Node, Describe: g.describe, Probe: g.probe, Log: c.Log,
	})
	if err := g.metrics.register(c.Metrics); err != nil {
		return nil, fmt.Errorf("gateway config: Metrics: %w", err)
	}
	return g, nil
}

// newGateway makes a gateway without a mesh and a lease.
func newGateway(control, push conn, v view, c Config) *Gateway {
	g := &Gateway{config: c, log: c.Log, control: control, push: push, view: v, start: time.Now()}
	if c.Local {
		for n := range g.slots {
			g.slots[n].devices = make(map[deviceOf][]*session)
		}
	}
	g.base, g.stop = context.WithCancel(context.Background())
	g.door.limits = c.Limits
	g.metrics = newMetrics(g)
	g.watches = newHub(g)
	return g
}

// now is the gateway's clock: monotonic, above 0.
func (g *Gateway) now() time.Duration { return time.Since(g.start) + 1 }

// Run serves until ctx ends, or somebody asks the gateway to drain, then drains: see drain.go. It
// returns lease.ErrNameTaken or lease.ErrTakenOver where another process stands under the node's
// name, and the error of a listener that fails. It is called once.
func (g *Gateway) Run(ctx context.Context) error {
	until, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	g.depart = func() { fail(errDrainAsked) }
	defer g.changes(g.changed)()
	var parts sync.WaitGroup
	for _, part := range append(g.parts, g.watches.run, g.sweep) {
		parts.Go(func() {
			if err := part(g.base); err != nil {
				fail(err)
			}
		})
	}
	servers := g.listen(fail)
	err := g.holder.Run(until, func(leased context.Context, me schema.Process) error {
		return g.live(until, leased, me)
	})
	g.draining.Store(true)
	g.closeAll(err)
	servers.close()
	g.door.serving.Wait()
	g.stop()
	parts.Wait()
	if err == nil && ctx.Err() == nil {
		err = context.Cause(until)
	}
	if errors.Is(err, errDrainAsked) {
		return nil
	}
	return err
}

// Ready tells why new clients are not served at the moment; nil where they are.
func (g *Gateway) Ready() error {
	switch {
	case g.draining.Load():
		return errors.New("gateway is draining")
	case g.life.Load() == nil:
		return errors.New("gateway has no lease")
	case !g.holder.Trusted():
		return errors.New("gateway's lease was not renewed for long")
	}
	return nil
}

// describe gives what the gateway's key says. The revision is read before sockets are counted.
func (g *Gateway) describe() schema.ProcessValue {
	read := g.view.Revision()
	sessions := g.registry.len()
	v := schema.ProcessValue{Version: g.config.Version, Sessions: sessions, Since: g.since.at(read, sessions)}
	if g.draining.Load() {
		v.State = schema.StateLeaving
	}
	for _, l := range g.config.Listeners {
		v.Addresses = append(v.Addresses, l.Addr().String())
	}
	return v
}

// probe waits until each serving loop of the present life has taken a probe.
func (g *Gateway) probe(ctx context.Context) error {
	l := g.life.Load()
	if l == nil {
		return nil
	}
	for _, in := range []*lease.Loop{l.pushes, l.kicks, l.revokes, l.asks} {
		if err := in.Probe(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settled gives the settled mark of a boot; 0, which settles nothing, for one that is over.
func (g *Gateway) settled(p schema.Process) schema.OwnerSeq {
	if l := g.life.Load(); l != nil && l.me == p {
		return l.ledger.settled()
	}
	return 0
}

// changed hears what the bucket says: a slot's new owner is told of its sessions, and watches go by the
// settings.
func (g *Gateway) changed(c lease.Change) {
	if c.Config != nil {
		signal(g.watches.settings)
	}
	if l := g.life.Load(); l != nil && c.Slot != nil && c.Slot.Owned {
		g.wantSync(l, c.Slot.Target.Slot)
	}
}
