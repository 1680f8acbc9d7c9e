package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Bounds of a snapshot's steps.
const (
	createWait = time.Second // for the consumer; without the meta leader none is created
	stepWait   = time.Second // for each message of it
)

// snapshots takes them one at a time until ctx ends.
func (v *View) snapshots(ctx context.Context) {
	var p pace
	opened := sync.OnceFunc(func() { close(v.ready) })
	for {
		waiting, ok := p.next(ctx, v.b.Config().Lease(), v.stale, v.refresh)
		if !ok {
			return
		}
		err := v.snapshot(ctx)
		for _, done := range waiting {
			done <- err
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			v.report(!p.failing, err)
			p.failed()
			continue
		}
		opened()
		p.succeeded()
	}
}

// report tells the first failure after a success aloud.
func (v *View) report(first bool, err error) {
	level := slog.LevelDebug
	if first {
		level = slog.LevelWarn
	}
	v.log.Log(context.Background(), level, "the bucket cannot be read: what was known of it stays, and it is tried again", "err", err)
}

// Refresh reads the whole bucket from its leader, and returns when the view holds what it said
// after the call. Calls that wait together share one reading.
func (v *View) Refresh(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case v.refresh <- done:
	case <-ctx.Done():
		return fmt.Errorf("refresh the view: %w", context.Cause(ctx))
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("refresh the view: %w", context.Cause(ctx))
	}
}

// snapshot reads the bucket once into the table.
func (v *View) snapshot(ctx context.Context) error {
	after := v.Revision()
	l, err := v.b.list(ctx)
	v.b.reach.heard(err)
	if err != nil {
		return v.b.explain("list", "", err)
	}
	v.b.keepConfig(ctx, l.entries)
	l.after = after
	return v.take(ctx, func(t *table, now time.Time) []Change {
		changes, again, fell := t.install(l, now)
		if again {
			v.log.Warn("the bucket was made anew", "created", l.created)
			v.want()
		}
		if fell {
			v.log.Warn("the bucket's log ends below what was heard", "at", l.at, "heard", l.after)
		}
		return changes
	})
}

// errIncomplete is given by a consumer's listing that does not reach as far as the stream did
// before it: the consumer sits on a replica that is behind.
var errIncomplete = errors.New("listing is behind the stream")

// list gives all keys, by one consumer; where that is not to be had, by reads of the leader.
func (b *Bucket) list(ctx context.Context) (listing, error) {
	infoCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := b.stream.Info(infoCtx)
	if err != nil {
		return listing{}, err
	}
	l := listing{created: info.Created, now: info.TimeStamp, at: schema.Revision(info.State.LastSeq)}
	if info.State.Msgs == 0 {
		return l, nil
	}
	l.entries, err = b.consume(ctx, l.at)
	if err != nil && ctx.Err() == nil {
		b.o.Log.Debug("no consumer for a snapshot, reading key by key", "err", err)
		l.entries, err = b.walk(ctx)
	}
	for _, e := range l.entries {
		l.at = max(l.at, e.rev)
	}
	return l, err
}

// consume lists by an ephemeral consumer. The listing is complete when nothing is pending behind
// its last message and that reaches at least to least.
func (b *Bucket) consume(ctx context.Context, least schema.Revision) ([]entry, error) {
	sub, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	createCtx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	c, err := b.stream.CreatePushConsumer(createCtx, jetstream.ConsumerConfig{
		DeliverSubject:    sub.Subject,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject:     b.o.Prefix.BucketSubjects(),
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: 5 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	defer b.dropConsumer(ctx, c.CachedInfo().Name)
	return b.drain(ctx, sub, least)
}

func (b *Bucket) dropConsumer(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepWait)
	defer cancel()
	if err := b.stream.DeleteConsumer(ctx, name); err != nil { // it ends by itself after 5 s
		b.o.Log.Debug("snapshot's consumer not deleted", "err", err)
	}
}

func (b *Bucket) drain(ctx context.Context, sub *nats.Subscription, least schema.Revision) ([]entry, error) {
	var out []entry
	for next := uint64(1); ; next++ {
		stepCtx, cancel := context.WithTimeout(ctx, stepWait)
		m, err := sub.NextMsgWithContext(stepCtx)
		cancel()
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		if meta.Sequence.Consumer != next {
			return nil, errIncomplete
		}
		out = append(out, entry{
			key: b.keyOf(m.Subject), rev: schema.Revision(meta.Sequence.Stream),
			marker: isMarker(m.Header), data: m.Data, at: meta.Timestamp,
		})
		if meta.NumPending == 0 {
			if schema.Revision(meta.Sequence.Stream) < least {
				return nil, errIncomplete
			}
			return out, nil
		}
	}
}

// walk lists by one read of the leader after the other. A key written meanwhile moves ahead of the
// walk, and is met there again.
func (b *Bucket) walk(ctx context.Context) ([]entry, error) {
	var out []entry
	for seq := uint64(1); ; {
		stepCtx, cancel := context.WithTimeout(ctx, readTimeout)
		m, err := b.stream.GetMsg(stepCtx, seq, jetstream.WithGetMsgSubject(b.o.Prefix.BucketSubjects()))
		cancel()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, b.entryOf(m))
		seq = m.Sequence + 1
	}
}
