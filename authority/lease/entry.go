package lease

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/schema"
)

// opHeader tells on a message of a KV bucket that it deletes its key.
const opHeader = "KV-Operation"

// readTimeout bounds one read of the bucket. Its leader answers within a millisecond; during an
// election nobody answers for seconds, and the asker had better ask again.
const readTimeout = time.Second

// entry is one key as the bucket holds it.
type entry struct {
	key    string
	rev    schema.Revision
	marker bool // the key was deleted
	data   []byte
	at     time.Time // by the server's clock
}

func isMarker(h nats.Header) bool {
	return h.Get(opHeader) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// read asks the stream's leader for a key. A deleted key is no error; ErrNoKey and ErrNoBucket say
// that nothing is there.
func (b *Bucket) read(ctx context.Context, key string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := b.stream.GetLastMsgForSubject(ctx, b.o.Prefix.BucketKey(key))
	b.reach.heard(err)
	if err != nil {
		return entry{}, b.explain("read", key, err)
	}
	return b.entryOf(m), nil
}

func (b *Bucket) entryOf(m *jetstream.RawStreamMsg) entry {
	return entry{key: b.keyOf(m.Subject), rev: schema.Revision(m.Sequence), marker: isMarker(m.Header), data: m.Data, at: m.Time}
}

func (b *Bucket) keyOf(subject string) string {
	return subject[min(len(subject), len(b.o.Prefix.BucketKey(""))):]
}

// swap writes a key that stands at revision at; 0 = that was never written. It is sent once: a
// retry of the client library's could follow a renewal that the caller has given up.
func (b *Bucket) swap(ctx context.Context, key string, value any, at schema.Revision) (schema.Revision, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return 0, b.explain("encode", key, err)
	}
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.o.Prefix.BucketKey(key), Data: data, Header: nats.Header{}},
		jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequencePerSubject(uint64(at)))
	b.reach.heard(err)
	if err != nil {
		return 0, b.explain("write", key, err)
	}
	return schema.Revision(ack.Sequence), nil
}
