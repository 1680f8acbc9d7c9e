package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MinEventsAge is the shortest time for which a stream may keep events: in that time it knows an
	// event that is sent to it again.
	MinEventsAge = 2 * time.Minute
	// DefaultEventsAge is for how long a stream of events made here keeps them.
	DefaultEventsAge = 24 * time.Hour
)

// MinLastSeen is the shortest time for which it may be kept when users were last there.
const MinLastSeen = 2 * time.Minute

// KeepLastSeen makes the bucket of when users were last there, with entries that live for age, or
// changes how long they live. A new one has the replicas of the mesh's bucket.
func (b *Bucket) KeepLastSeen(ctx context.Context, age time.Duration) error {
	mine := b.stream.CachedInfo().Config
	c := jetstream.KeyValueConfig{
		Bucket: b.o.Prefix.LastSeenBucket(), Description: "rollcall: when users were last there",
		History: 1, TTL: age, Storage: mine.Storage, Replicas: mine.Replicas,
	}
	if s, err := b.js.Stream(ctx, b.o.Prefix.LastSeenStream()); err == nil {
		c.Storage, c.Replicas = s.CachedInfo().Config.Storage, s.CachedInfo().Config.Replicas
	}
	if _, err := b.js.CreateOrUpdateKeyValue(ctx, c); err != nil {
		return fmt.Errorf("bucket %s: %w", c.Bucket, err)
	}
	return nil
}

// KeepEvents makes the stream that keeps all events, or changes how long one that is there keeps
// them; 0 leaves that as it is. A new one has the replicas of the bucket. It returns ErrForeignEvents, or
// JetStream's error, above all where another stream takes the same subjects.
func (b *Bucket) KeepEvents(ctx context.Context, age time.Duration) error {
	name := b.o.Prefix.EventStream()
	s, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
			Name:        name,
			Description: "rollcall: who came and went",
			Subjects:    []string{b.o.Prefix.AllEvents()},
			MaxAge:      cmp.Or(age, DefaultEventsAge),
			Duplicates:  MinEventsAge,
			Storage:     b.stream.CachedInfo().Config.Storage,
			Replicas:    b.stream.CachedInfo().Config.Replicas,
			AllowDirect: true,
		})
	} else if err == nil {
		err = b.adoptEvents(ctx, s.CachedInfo().Config, age)
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	return nil
}

// adoptEvents takes a stream of that name that is there, whoever made it.
func (b *Bucket) adoptEvents(ctx context.Context, c jetstream.StreamConfig, age time.Duration) error {
	switch all := b.o.Prefix.AllEvents(); {
	case !slices.Contains(c.Subjects, all):
		return fmt.Errorf("%w: it takes %q and not %q: give it that subject, or delete it", ErrForeignEvents, c.Subjects, all)
	case c.NoAck:
		return fmt.Errorf("%w: it acknowledges nothing (no_ack): authorities could not tell what it has missed", ErrForeignEvents)
	case age == 0:
		return nil
	}
	c.MaxAge, c.Duplicates = age, MinEventsAge
	_, err := b.js.UpdateStream(ctx, c)
	return err
}
