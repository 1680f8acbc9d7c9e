package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// renew keeps a life's key until ctx ends (nil) or the life has: ErrLost, ErrTakenOver,
// ErrBucketLost, or a fatal error of the bucket.
func (h *Holder) renew(ctx context.Context, l *life) error {
	every := h.b.Config().Renew()
	failing, pause := false, every
	reconnected := h.b.nc.StatusChanged(nats.CONNECTED)
	defer h.b.nc.RemoveStatusListener(reconnected)
	for h.due(ctx, pause, reconnected) {
		pause = every
		if !h.probed(ctx, every) {
			continue
		}
		err := h.renewOnce(ctx, l)
		if ctx.Err() != nil {
			return nil
		}
		h.report(&failing, err)
		if err == nil {
			continue
		}
		if err := h.settle(ctx, l); err != nil {
			return err
		}
		pause = every / 10
	}
	return nil
}

// due waits until a renewal is: after pause, on a new connection, or because one is wanted. False =
// ctx has ended.
func (h *Holder) due(ctx context.Context, pause time.Duration, reconnected <-chan nats.Status) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-reconnected:
	case <-h.now:
	case <-ctx.Done():
		return false
	}
	return true
}

// report tells when renewals begin to fail, and when they succeed again.
func (h *Holder) report(failing *bool, err error) {
	switch {
	case err == nil && *failing:
		h.c.Log.Info("renewed again")
	case err != nil && !*failing:
		h.c.Log.Warn("renewal not acknowledged: trying on", "trusted", h.b.Config().Trust()-time.Since(h.Renewed()), "err", err)
	case err != nil:
		h.c.Log.Debug("renewal not acknowledged", "err", err)
	}
	*failing = err != nil
}

// probed asks the serving loops whether they take what is queued for them.
func (h *Holder) probed(ctx context.Context, within time.Duration) bool {
	if h.c.Probe == nil {
		return true
	}
	probing, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := h.c.Probe(probing)
	if err != nil && ctx.Err() == nil {
		h.c.Log.Warn("no renewal: a serving loop does not answer its probe", "err", err)
	}
	return err == nil
}

// renewOnce makes one attempt. What it is trusted from is its start, not its answer.
func (h *Holder) renewOnce(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeout(ctx, h.attemptWait())
	defer cancel()
	start, over := time.Now(), connected(h.b.nc)
	value := h.describe(l)
	if h.c.Role == Authority {
		value.Conn = over.String()
	}
	rev, err := h.b.swap(ctx, h.key, value, l.rev)
	if err != nil {
		return err
	}
	l.rewound = l.rewound || rev <= value.Since // which was heard before the write
	l.stands(rev)
	h.setRenewed(start, over)
	return nil
}

// attemptWait bounds one attempt: a third of a renewal's distance, 1 s at the default.
func (h *Holder) attemptWait() time.Duration { return h.b.Config().Renew() / 3 }

// settle reads the key after an attempt that was not acknowledged. It returns nil where the life
// goes on: nothing could be read, or the key still names it.
func (h *Holder) settle(ctx context.Context, l *life) error {
	e, err := h.b.read(ctx, h.key)
	switch judge(l.me.Boot, e, err) {
	case mine:
		l.stands(e.rev)
	case dead:
		return fmt.Errorf("%w: key %s at revision %d", ErrLost, h.key, e.rev)
	case other:
		if e.rev < l.top {
			return fmt.Errorf("%w: the log has lost its tail, and key %s names who stood there before, at revision %d", ErrLost, h.key, e.rev)
		}
		return fmt.Errorf("%w: key %s at revision %d", ErrTakenOver, h.key, e.rev)
	case bucketGone:
		return h.bucketLost(ctx, l)
	case closed:
		return err
	}
	return nil
}

// bucketLost waits until the bucket stands again, or makes it, while work goes on: a process
// without a bucket still has its sockets and directories. Then the life ends, unless its key is
// there after all.
func (h *Holder) bucketLost(ctx context.Context, l *life) error {
	h.c.Log.Warn("the bucket does not hold this process's key", "boot", string(l.me.Boot))
	for {
		if err := h.b.ensure(ctx, h.v.highestRevision()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		e, err := h.b.read(ctx, h.key)
		switch judge(l.me.Boot, e, err) {
		case mine:
			l.stands(e.rev)
			return nil
		case unclear:
			if Wait(ctx, retryLast) != nil {
				return nil
			}
		default:
			return fmt.Errorf("%w: no key %s", ErrBucketLost, h.key)
		}
	}
}
