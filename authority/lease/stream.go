package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/schema"
)

// openStream binds the stream behind the bucket, and makes it where that is this process's part.
func (b *Bucket) openStream(ctx context.Context, above schema.Revision) error {
	s, err := b.bindStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) && b.o.Create {
		s, err = b.makeStream(ctx, above)
	}
	b.reach.heard(err)
	if err != nil {
		return b.explain("open", "", err)
	}
	if err := b.checkStream(s.CachedInfo().Config); err != nil {
		return err
	}
	if b.stream == nil {
		b.stream = s
	}
	return nil
}

// bindStream looks for the stream once. While a cluster is making one it may leave the question
// without an answer: it is better asked again soon.
func (b *Bucket) bindStream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return b.js.Stream(ctx, b.o.Prefix.BucketStream())
}

// makeStream makes the stream; where another process was first, it binds that one's.
func (b *Bucket) makeStream(ctx context.Context, above schema.Revision) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a replicated stream waits for its election
	defer cancel()
	first := max(schema.Revision(time.Now().UnixMilli()), above+1)
	s, err := b.js.CreateStream(ctx, b.streamConfig(first))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.bindStream(ctx)
	}
	if err == nil {
		b.o.Log.Info("made the bucket", "bucket", b.o.Prefix.Bucket(), "first", first, "replicas", b.o.Replicas)
	}
	return s, err
}

// streamConfig is that of a KV bucket, made by hand because a bucket made as one has direct reads
// on (stale after an acknowledged write on replicas) and cannot set where its revisions begin.
func (b *Bucket) streamConfig(first schema.Revision) jetstream.StreamConfig {
	storage := jetstream.FileStorage
	if b.o.Memory {
		storage = jetstream.MemoryStorage
	}
	return jetstream.StreamConfig{
		Name:              b.o.Prefix.BucketStream(),
		Description:       "rollcall: who owns what",
		Subjects:          []string{b.o.Prefix.BucketSubjects()},
		MaxMsgsPerSubject: 1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxConsumers:      -1,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowDirect:       false,
		FirstSeq:          uint64(first),
		Storage:           storage,
		Replicas:          b.o.Replicas,
		RePublish:         &jetstream.RePublish{Source: b.o.Prefix.BucketSubjects(), Destination: b.o.Prefix.Changed()},
	}
}

// checkStream refuses a bucket on which the rules of this package do not hold.
func (b *Bucket) checkStream(c jetstream.StreamConfig) error {
	switch {
	case c.AllowDirect:
		return fmt.Errorf("%w: it allows direct reads, which can be stale: delete it and let an authority make it", ErrForeignBucket)
	case c.RePublish == nil || c.RePublish.Destination != b.o.Prefix.Changed():
		return fmt.Errorf("%w: it does not republish to %s: delete it and let an authority make it", ErrForeignBucket, b.o.Prefix.Changed())
	case c.MaxMsgsPerSubject != 1:
		return fmt.Errorf("%w: it keeps %d values a key instead of 1: delete it and let an authority make it", ErrForeignBucket, c.MaxMsgsPerSubject)
	}
	return nil
}
