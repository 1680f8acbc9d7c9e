package lease

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bury deletes the key of a member that is long dead, at the revision seen: an unconditional
// delete could take the key of a new life. It returns ErrConflict when the member has moved on.
func (b *Bucket) Bury(ctx context.Context, m Member) error {
	key := m.Role.key(m.Process.Node)
	header := nats.Header{}
	header.Set(opHeader, "DEL")
	_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.o.Prefix.BucketKey(key), Header: header},
		jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequencePerSubject(uint64(m.Revision)))
	b.reach.heard(err)
	if err != nil {
		return b.explain("delete", key, err)
	}
	return nil
}
