package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// openWait is how long a call waits for a mesh that is not in reach yet.
const openWait = 500 * time.Millisecond

// Delivery looks users up, pushes to them and kicks them. All methods are safe for concurrent use.
type Delivery struct {
	// static
	nc    *nats.Conn
	s     settings
	meter *metrics
	life  context.Context // ends with Close
	stop  context.CancelFunc
	done  chan struct{} // closed when all that New started has ended

	opened chan struct{} // closed when mesh is there, or failed says why it never will be
	mesh   *mesh
	failed error
}

// mesh is what stands on an open bucket.
type mesh struct {
	view    *lease.View
	client  *client.Client
	pushes  *client.Lanes[schema.Process, *parcel]
	removes *client.Lanes[schema.Target, schema.Disowned]
	cache   *cached // nil: none
}

// settings are what the options set.
type settings struct {
	prefix  subjects.Prefix
	log     *slog.Logger
	metrics prometheus.Registerer
	local   Local // nil: no gateway in this process
	cache   int   // users; 0: no cache
}

// Option sets one thing of a Delivery.
type Option func(*settings)

// WithPrefix names the mesh, where it is not the one without a prefix.
func WithPrefix(p string) Option { return func(s *settings) { s.prefix = subjects.Prefix(p) } }

// WithLogger takes what an operator should see; the default is nowhere.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// WithMetrics registers the metrics rollcall_delivery_*: one Delivery a registerer.
func WithMetrics(r prometheus.Registerer) Option { return func(s *settings) { s.metrics = r } }

// New joins the mesh that is on nc, as an asker. It does not wait for it: where the mesh is not
// there yet, calls wait for a moment and then say that they do not know. Close ends what New has
// started; nc stays the caller's. Give nc the option nats.ReconnectBufSize(-1): what is sent while
// it is not connected then fails at once, and nothing of it arrives later.
func New(nc *nats.Conn, options ...Option) (*Delivery, error) {
	d := &Delivery{nc: nc, done: make(chan struct{}), opened: make(chan struct{})}
	for _, o := range options {
		o(&d.s)
	}
	if nc == nil {
		return nil, errors.New("delivery: no connection")
	}
	if err := d.s.prefix.Check(); err != nil {
		return nil, fmt.Errorf("delivery: %w", err)
	}
	if d.s.log == nil {
		d.s.log = slog.New(slog.DiscardHandler)
	}
	d.meter = newMetrics(d.s.metrics, d.lookupStats, d.cacheSize)
	d.life, d.stop = context.WithCancel(context.Background())
	go d.run(d.life)
	return d, nil
}

// Close ends all calls and waits until everything that New started has stopped.
func (d *Delivery) Close() {
	d.stop()
	<-d.done
}

// run opens the mesh and keeps it until ctx ends.
func (d *Delivery) run(ctx context.Context) {
	defer close(d.done)
	bucket, err := lease.Open(ctx, d.nc, lease.Options{Prefix: d.s.prefix, Log: d.s.log})
	if err != nil {
		if ctx.Err() == nil {
			d.s.log.Error("delivery cannot work with this mesh", "err", err)
		}
		d.failed = fmt.Errorf("open the mesh: %w", err)
		close(d.opened)
		return
	}
	d.mesh = d.newMesh(lease.NewView(bucket, d.s.log))
	close(d.opened)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.mesh.view.Run(ctx); err != nil && ctx.Err() == nil {
			d.s.log.Error("delivery hears nothing of the mesh any more", "err", err)
		}
	})
	if d.mesh.cache != nil {
		wg.Go(func() { d.mesh.cache.run(ctx) })
	}
	d.mesh.client.Run(ctx)
	wg.Wait()
}

// present gives the mesh where it is open by now, else nil.
func (d *Delivery) present() *mesh {
	select {
	case <-d.opened:
		return d.mesh
	default:
		return nil
	}
}

// lookupStats counts what the look-ups cost; nothing before the mesh is open.
func (d *Delivery) lookupStats() client.Stats {
	if m := d.present(); m != nil {
		return m.client.Stats()
	}
	return client.Stats{}
}

// cacheSize counts the users in the cache.
func (d *Delivery) cacheSize() int {
	if m := d.present(); m != nil && m.cache != nil {
		return m.cache.size()
	}
	return 0
}

func (d *Delivery) newMesh(v *lease.View) *mesh {
	c := client.New(d.nc, v, client.Config{Prefix: d.s.prefix, Log: d.s.log})
	m := &mesh{view: v, client: c}
	m.pushes = client.NewLanes(c, maxParcels, takeParcels, d.carryParcels)
	m.removes = client.NewLanes(c, maxDisowned, takeDisowned, d.carryDisowned)
	if d.s.cache > 0 {
		m.cache = newCached(d, v, d.s.cache)
	}
	return m
}

// open gives the mesh, or says why there is none.
func (d *Delivery) open(ctx context.Context) (*mesh, error) {
	select {
	case <-d.opened:
	default:
		t := time.NewTimer(openWait)
		defer t.Stop()
		select {
		case <-d.opened:
		case <-t.C:
			return nil, fmt.Errorf("%w: the mesh is not in reach yet", schema.ErrUnavailable)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if d.life.Err() != nil {
		return nil, ErrClosed
	}
	return d.mesh, d.failed
}
