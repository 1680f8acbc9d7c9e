package lease

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// Bury takes the key of a member that is long dead out of the bucket, and leaves no marker: names
// drawn for each start would fill it. What is written after the revision seen stays, and so does who
// has come back under the name. In a log that has lost its tail since, a new life may stand below; it
// then goes on under another boot, with the sockets that it has.
//
// No notice tells of a purge: this view reads the key again, the others find it gone in their next
// snapshots.
func (v *View) Bury(ctx context.Context, m Member) error {
	key := m.Role.key(m.Process.Node)
	err := v.b.stream.Purge(ctx, jetstream.WithPurgeSubject(v.b.o.Prefix.BucketKey(key)), jetstream.WithPurgeSequence(uint64(m.Revision)+1))
	v.b.reach.heard(err)
	if err != nil {
		return v.b.explain("purge", key, err)
	}
	return v.Reread(ctx, key)
}
