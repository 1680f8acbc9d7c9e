package authority

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Config is what a worker needs. The zero value of each field but Node works.
type Config struct {
	Node    schema.NodeID   // name of this process; required
	Prefix  subjects.Prefix // in front of every subject; default none
	Version string          // of the program, shown in its key
	// Fresh says that this process has just made the bucket for itself alone, so that no gateway
	// can have anything to sync: its slots are ready at once. Only an embedded server is that.
	Fresh   bool
	Log     *slog.Logger          // default: discard
	Metrics prometheus.Registerer // default: none
}

func (c Config) validate() error {
	if err := c.Node.Check(); err != nil {
		return fmt.Errorf("Node: %w", err)
	}
	if err := c.Prefix.Check(); err != nil {
		return fmt.Errorf("Prefix: %w", err)
	}
	return nil
}

// Worker owns slots under a lease and serves their directories. Run starts it.
type Worker struct {
	// static
	nc     *nats.Conn
	bucket *lease.Bucket
	view   *lease.View
	holder *lease.Holder
	config Config
	log    *slog.Logger
	meter  *metrics
	out    *outbox
	loops  []*loop
	asks   *loop         // look-up, explain and status, for all slots
	wake   chan struct{} // 1: the claim loop should look again; full is enough

	held [schema.Slots]atomic.Pointer[tenure] // written by the claim loop only

	mu     sync.Mutex
	me     schema.Process      // of the running life
	asking map[string]struct{} // keys whose read is on its way
	reads  *sync.WaitGroup     // of the running life
	life   context.Context     // of the running life
}

// New makes a worker on a connection; it starts nothing.
func New(nc *nats.Conn, b *lease.Bucket, v *lease.View, c Config) (*Worker, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	w := &Worker{
		nc: nc, bucket: b, view: v, config: c,
		log:    cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		out:    newOutbox(),
		wake:   make(chan struct{}, 1),
		asking: map[string]struct{}{},
	}
	w.meter = newMetrics(c.Metrics, w)
	w.asks = newLoop(w.serveAsk)
	for range max(2, runtime.GOMAXPROCS(0)) {
		w.loops = append(w.loops, newLoop(w.serveSlot))
	}
	w.holder = lease.NewHolder(b, v, lease.HolderConfig{
		Role:     lease.Authority,
		Node:     c.Node,
		Describe: w.describe,
		Probe:    w.probe,
		Log:      w.log,
	})
	return w, nil
}

func (w *Worker) describe() schema.ProcessValue {
	return schema.ProcessValue{State: schema.StateServing, Version: w.config.Version}
}

// Run serves until ctx ends, one life after another, and gives its slots back. It returns an error
// only when it can never serve under this name.
func (w *Worker) Run(ctx context.Context) error {
	return w.holder.Run(ctx, w.serve)
}

// serve is one life: all that it starts ends with ctx, which ends with the lease.
func (w *Worker) serve(ctx context.Context, me schema.Process) error {
	var running sync.WaitGroup
	defer running.Wait()
	w.begin(ctx, me, &running)
	defer w.dropAll()

	for _, l := range w.loops {
		running.Go(func() { l.run(ctx) })
	}
	for range len(w.loops) {
		running.Go(func() { w.asks.run(ctx) })
	}
	running.Go(func() { w.publish(ctx) })

	sub, err := w.nc.ChanSubscribe(w.config.Prefix.AuthorityAll(me), w.asks.queue)
	if err != nil {
		return fmt.Errorf("subscribe to requests of %s: %w", me, err)
	}
	defer sub.Unsubscribe()
	cancel := w.view.Subscribe(func(lease.Change) { w.look() })
	defer cancel()
	w.log.Info("serving", "node", me.Node, "boot", me.Boot)
	w.keepSlots(ctx)
	return nil
}

func (w *Worker) begin(ctx context.Context, me schema.Process, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.me, w.life, w.reads = me, ctx, running
	clear(w.asking)
}

// Me names the running life, or the last one.
func (w *Worker) Me() schema.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.me
}

// Ready reports whether the worker holds a lease.
func (w *Worker) Ready() bool { return w.holder.Trusted() }

// look makes the claim loop look at the view again.
func (w *Worker) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// probe asks each serving loop to take one thing from its queue: a wedged one costs the lease.
func (w *Worker) probe(ctx context.Context) error {
	for _, l := range append(w.loops, w.asks) {
		if err := l.probe(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reread reads a key from the stream's leader, beside the serving loops; one read in flight a key.
func (w *Worker) reread(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, on := w.asking[key]; on || w.life == nil || w.life.Err() != nil {
		return
	}
	w.asking[key] = struct{}{}
	ctx := w.life
	w.reads.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		if err := w.view.Reread(ctx, key); err != nil {
			w.log.Debug("read of a key failed", "key", key, "err", err)
		}
		w.look()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.asking, key)
	})
}

const readTimeout = 2 * time.Second
