package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// HolderConfig says whose lease is held.
type HolderConfig struct {
	Role Role
	Node schema.NodeID

	// Describe gives what the key shall say; Boot is filled in, State is "serving" when empty. It is
	// called before each write, from Run's goroutines.
	Describe func() schema.ProcessValue

	// Probe returns nil when each serving loop has taken a probe from its own queue since the call.
	// No renewal is sent without it, so a wedged process loses its lease. nil = nothing to probe.
	Probe func(context.Context) error

	Log *slog.Logger // default: nowhere
}

func (c HolderConfig) validate() error {
	if c.Role != Authority && c.Role != Gateway {
		return fmt.Errorf("role is %q: it takes %s or %s", string(c.Role), Authority, Gateway)
	}
	return c.Node.Check()
}

// Holder holds the lease of one process: one key, renewed by compare-and-swap.
type Holder struct {
	// static
	b   *Bucket
	v   *View
	c   HolderConfig
	key string
	now chan struct{} // 1: a renewal is wanted at once

	// owned by Run, which changes it between two lives
	held schema.Revision // the highest at which the key was known to be this process's; 0 = it never was

	mu      sync.Mutex
	renewed time.Time  // start of the last acknowledged attempt; zero = no life
	over    connection // the connection over which it was acknowledged
}

// NewHolder makes a holder; Run does all.
func NewHolder(b *Bucket, v *View, c HolderConfig) *Holder {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("role", string(c.Role), "node", string(c.Node))
	if c.Describe == nil {
		c.Describe = func() schema.ProcessValue { return schema.ProcessValue{} }
	}
	return &Holder{b: b, v: v, c: c, key: c.Role.key(c.Node), now: make(chan struct{}, 1)}
}

// Trusted reports whether the lease may be relied upon: less than two thirds of it have passed
// since the start of the last acknowledged renewal, and that came over the connection of now. Over
// another one nothing is proven yet: when the former ended, others may have ended the lease.
func (h *Holder) Trusted() bool {
	h.mu.Lock()
	at, over := h.renewed, h.over
	h.mu.Unlock()
	return !at.IsZero() && time.Since(at) < h.b.Config().Trust() && over == connected(h.b.nc)
}

// RenewNow has the key written at once, with what Describe says now.
func (h *Holder) RenewNow() {
	select {
	case h.now <- struct{}{}:
	default:
	}
}

// Renewed is the start of the last acknowledged renewal; zero when there is no life.
func (h *Holder) Renewed() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

func (h *Holder) setRenewed(at time.Time, over connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed, h.over = at, over
}

// Run leads one life after the other: it takes the node's key under a new boot, and runs work
// under a context that ends, with its cause, the moment the life does. It returns when ctx has
// ended and work has returned, with the key resigned: nil; when work returned by itself: its
// error; or ErrNameTaken, ErrTakenOver or a fatal error of the bucket. The view must be running.
//
// Renewals go on until work has returned, also after the end of ctx: a process that drains still
// owns what it drains.
func (h *Holder) Run(ctx context.Context, work func(ctx context.Context, me schema.Process) error) error {
	if err := h.c.validate(); err != nil {
		return fmt.Errorf("hold lease: %w", err)
	}
	for {
		l, err := h.take(ctx)
		if ctx.Err() != nil {
			h.setRenewed(time.Time{}, connection{})
			h.resign(l)
			return nil
		}
		if err != nil {
			return fmt.Errorf("hold lease %s: %w", h.key, err)
		}
		h.c.Log.Info("lease taken", "boot", string(l.me.Boot), "revision", l.rev)
		err = h.live(ctx, l, work)
		if !errors.Is(err, ErrLost) && !errors.Is(err, ErrBucketLost) {
			return err
		}
		h.c.Log.Warn("lease lost, beginning anew", "boot", string(l.me.Boot), "why", err)
	}
}

// life is one boot's hold of the key. Only the goroutine that renews it touches the rest.
type life struct {
	me  schema.Process
	rev schema.Revision // at which the key stands, as far as known; 0 = never written
	top schema.Revision // the highest at which it stood

	// The log has lost its tail under this life: what was heard of it before may never have been, and
	// the key says no Since any more.
	rewound bool
}

// stands notes where the key was found, or written.
func (l *life) stands(at schema.Revision) {
	l.rewound = l.rewound || at < l.top
	l.rev, l.top = at, max(l.top, at)
}

// live runs work while the life lasts. It returns why the life ended, or what work returned.
func (h *Holder) live(ctx context.Context, l *life, work func(context.Context, schema.Process) error) error {
	workCtx, end := context.WithCancelCause(ctx)
	defer end(nil)
	renewCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var ended error
	var wg sync.WaitGroup
	wg.Go(func() {
		if ended = h.renew(renewCtx, l); ended != nil {
			h.setRenewed(time.Time{}, connection{})
			end(ended)
		}
	})
	err := work(workCtx, l.me)
	stop()
	wg.Wait()
	h.held = max(h.held, l.top)
	h.setRenewed(time.Time{}, connection{})
	if ended != nil {
		return fmt.Errorf("boot %s: %w", l.me.Boot, ended)
	}
	h.resign(l)
	return err
}

func (h *Holder) describe(l *life) schema.ProcessValue {
	v := h.c.Describe()
	v.Boot = l.me.Boot
	if v.State == "" {
		v.State = schema.StateServing
	}
	if l.rewound {
		v.Since = 0
	}
	return v
}

// resign declares a life dead by itself, so that nobody waits for its lease. It is tried for a
// second: after that the lease decides.
func (h *Holder) resign(l *life) {
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	value := h.describe(l)
	value.State = schema.StateDead
	for {
		e, err := h.b.read(ctx, h.key)
		switch judge(l.me.Boot, e, err) {
		case mine:
			if _, err = h.b.swap(ctx, h.key, value, e.rev); err == nil {
				h.c.Log.Info("lease resigned", "boot", string(l.me.Boot))
				return
			}
		case unclear:
		default: // not ours any more
			return
		}
		if Wait(ctx, retryFirst) != nil {
			h.c.Log.Warn("lease not resigned: others wait until it ends", "boot", string(l.me.Boot), "err", err)
			return
		}
	}
}
