package lease

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Jump empties the bucket and moves its next revision to at least next, in one step. Whoever holds
// a key finds it gone and writes it anew.
func (b *Bucket) Jump(ctx context.Context, next schema.Revision) error {
	err := b.stream.Purge(ctx, jetstream.WithPurgeSequence(uint64(next)))
	b.reach.heard(err)
	if err != nil {
		return fmt.Errorf("move revisions of %s to %d: %w", b.o.Prefix.Bucket(), next, err)
	}
	return nil
}
