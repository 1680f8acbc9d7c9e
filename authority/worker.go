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

// queued is how many requests may wait for one serving loop. It is small, since what is served
// after its requester gave up is wasted work.
const queued = 4096

// Config is what a worker needs. The zero value of each field but Node works.
type Config struct {
	Node    schema.NodeID   // name of this process; required
	Prefix  subjects.Prefix // in front of every subject; default none
	Version string          // of the program, shown in its key
	// Fresh says that this process has just made the bucket for itself alone, so that no gateway
	// can have anything to sync: its slots are ready at once, until that bucket is lost. Only an embedded
	// server is that.
	Fresh   bool
	Log     *slog.Logger          // default: discard
	Metrics prometheus.Registerer // default: none
}

func (c Config) validate() error {
	if err := c.Node.Check(); err != nil {
		return fmt.Errorf("config Node: %w", err)
	}
	if err := c.Prefix.Check(); err != nil {
		return fmt.Errorf("config Prefix: %w", err)
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
	loops  []*lease.Loop
	asks   *lease.Loop   // look-up, explain and status, for all slots
	wake   chan struct{} // 1: the claim loop should look again; full is enough

	held [schema.Slots]atomic.Pointer[tenure] // filled by the claim loop only; a hand-over empties its own

	lifted  [schema.Slots]atomic.Bool // whose fence was lifted, and is not yet taken up
	corrupt [schema.Slots]atomic.Bool // whose fence nothing can lift; until they are taken up

	// Beside these, each tenure has handing: its own slot's successor may stand in the key.
	leaving atomic.Bool                        // the process ends: it takes no more slots
	handing atomic.Bool                        // a round of balance is under way; while it is, unanswered hand-overs are left alone
	proofs  atomic.Bool                        // disconnect events are imported
	leaveBy atomic.Pointer[context.CancelFunc] // ends the running Run; nil before
	found   atomic.Pointer[time.Time]          // when the bucket of the first life was heard of; nil before

	recording, seeing atomic.Pointer[recorder] // of events, and of when users were last there; nil while off. For the metrics

	mu    sync.Mutex
	me    schema.Process      // of the running life
	busy  map[string]struct{} // what is done beside, by name
	tasks *sync.WaitGroup     // of the running life
	life  context.Context     // of the running life; ended under mu, so that no task starts after it
}

// New makes a worker on a connection; it starts nothing.
func New(nc *nats.Conn, b *lease.Bucket, v *lease.View, c Config) (*Worker, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	w := &Worker{
		nc: nc, bucket: b, view: v, config: c,
		log:  cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		out:  newOutbox(),
		wake: make(chan struct{}, 1),
		busy: map[string]struct{}{},
	}
	w.meter = newMetrics(c.Metrics, w)
	w.asks = lease.NewLoop(queued, w.serveAsk)
	for range max(2, runtime.GOMAXPROCS(0)) {
		w.loops = append(w.loops, lease.NewLoop(queued, w.serveSlot))
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
	v := schema.ProcessValue{State: schema.StateServing, Version: w.config.Version}
	if w.leaving.Load() {
		v.State = schema.StateLeaving
	}
	return v
}

// Run serves until ctx ends, or somebody asks the worker to drain, one life after another, and then
// hands its slots to the other workers. It returns an error only when it can never serve under this
// name.
func (w *Worker) Run(ctx context.Context) error {
	until, leave := context.WithCancel(ctx)
	defer leave()
	w.leaveBy.Store(&leave)
	return w.holder.Run(until, func(leased context.Context, me schema.Process) error {
		return w.serve(until, leased, me)
	})
}

// serve is one life. It ends with the lease, or, where until ends first, when its slots are handed
// over: all that it has started goes on until then.
func (w *Worker) serve(until, leased context.Context, me schema.Process) error {
	ctx, end := context.WithCancelCause(context.WithoutCancel(leased))
	var tasks sync.WaitGroup
	w.begin(ctx, me, &tasks)
	defer w.finish(end, &tasks)
	defer w.dropAll()

	for _, l := range w.loops {
		w.spawn(l.Run)
	}
	for range len(w.loops) {
		w.spawn(w.asks.Run)
	}
	w.spawn(w.publish)
	w.spawn(w.heedDisconnects)

	sub, err := w.nc.ChanSubscribe(w.config.Prefix.AuthorityAll(me), w.asks.Queue)
	if err != nil {
		return fmt.Errorf("subscribe to requests of %s: %w", me, err)
	}
	defer sub.Unsubscribe()
	cancel := w.view.Subscribe(func(lease.Change) { w.look() })
	defer cancel()
	w.log.Info("serving", "node", me.Node, "boot", me.Boot)
	select {
	case <-w.view.Ready(): // before that every slot looks unowned
		heard := w.view.Heard()
		w.found.CompareAndSwap(nil, &heard)
		w.keepSlots(leased)
	case <-leased.Done():
	}
	if until.Err() != nil {
		w.leave(ctx)
	}
	return nil
}

func (w *Worker) begin(ctx context.Context, me schema.Process, tasks *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.me, w.life, w.tasks = me, ctx, tasks
	clear(w.busy)
}

// finish ends a life and waits for all that it has started.
func (w *Worker) finish(end context.CancelCauseFunc, tasks *sync.WaitGroup) {
	w.mu.Lock()
	end(nil)
	w.mu.Unlock()
	tasks.Wait()
}

// spawn starts f under the running life; it does nothing when that has ended.
func (w *Worker) spawn(f func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx := w.life; ctx != nil && ctx.Err() == nil {
		w.tasks.Go(func() { f(ctx) })
	}
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
		if err := l.Probe(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reread reads a key from the stream's leader, beside the serving loops; one read in flight a key.
func (w *Worker) reread(key string) {
	w.beside("read "+key, func(ctx context.Context) (changed bool) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		if err := w.view.Reread(ctx, key); err != nil {
			w.log.Debug("read of a key failed", "key", key, "err", err)
		}
		return false // the view tells of what is new, and what is not would be read for ever
	})
}

// beside runs f under the running life, one at a time of each name: what it waits for keeps up no loop.
// Where f has changed something, the claim loop looks again.
func (w *Worker) beside(name string, f func(context.Context) (changed bool)) {
	if !w.mark(name, true) {
		return
	}
	w.spawn(func(ctx context.Context) {
		changed := f(ctx)
		w.mark(name, false)
		if changed {
			w.look()
		}
	})
}

// mark notes that something is begun beside, or has ended; false where it was under way already.
func (w *Worker) mark(name string, begins bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, under := w.busy[name]
	if begins {
		w.busy[name] = struct{}{}
	} else {
		delete(w.busy, name)
	}
	return !under
}

const readTimeout = 2 * time.Second
