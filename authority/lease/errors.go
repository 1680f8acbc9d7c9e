package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/subjects"
)

var (
	// ErrConflict is returned when a write lost its compare-and-swap: the key does not stand at the
	// revision given.
	ErrConflict = errors.New("key is not at that revision")
	// ErrNoBucket is returned when the bucket does not exist.
	ErrNoBucket = errors.New("bucket does not exist")
	// ErrNoKey is returned when the bucket holds nothing under a key, not even a delete marker.
	ErrNoKey = errors.New("no such key")
	// ErrForeignBucket is returned when the bucket exists, but was not made by this program: reads
	// of it could be stale, or its changes are not republished.
	ErrForeignBucket = errors.New("bucket was not made by rollcall")
	// ErrForeignEvents is returned when the stream that should keep all events is there, and would not.
	ErrForeignEvents = errors.New("it does not keep the mesh's events")
	// ErrReplicas is returned when a bucket was to be made with several copies by a server that is in no
	// cluster.
	ErrReplicas = errors.New("a NATS server that is in no cluster keeps one copy: take one, or a cluster of three")
	// ErrSmallMessages is returned when the NATS server takes messages that are too small for the mesh's:
	// look-ups of many users and larger pushes would fail, and all others go on.
	ErrSmallMessages = errors.New("NATS server's max_payload is too small")
	// ErrFar is returned when a revision to be written above is so far ahead of the bucket's that no lost
	// tail of a log explains it.
	ErrFar = errors.New("revision is too far ahead of the bucket's")
	// ErrLost is the cause with which a life's context ends when its key was declared dead or
	// deleted by another process.
	ErrLost = errors.New("lease lost")
	// ErrBucketLost is the cause with which a life's context ends when the bucket was lost and
	// stands again without the life's key.
	ErrBucketLost = errors.New("bucket was lost")
	// ErrTakenOver is returned by Holder.Run, and is the cause of its life's end, when another
	// process stands under this node name.
	ErrTakenOver = errors.New("node name was taken over by another process")
	// ErrNameTaken is returned by Holder.Run when a living process holds this node name.
	ErrNameTaken = errors.New("node name is taken")
)

// errNoCluster is what a server outside of a cluster answers to who wants several copies.
var errNoCluster error = &jetstream.APIError{ErrorCode: 10074}

// errConflict and errInFlight are what the server answers to a lost compare-and-swap; the second
// only on a replicated bucket, and it says no more than that another write is under way. Both
// compare by their API code, with errors.Is.
var (
	errConflict error = &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	errInFlight error = &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant}
)

// explain wraps an error of the bucket once, with the act and the key.
func (b *Bucket) explain(act, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		err = ErrNoBucket
	case errors.Is(err, jetstream.ErrMsgNotFound):
		err = ErrNoKey
	case errors.Is(err, errNoCluster):
		err = ErrReplicas
	case errors.Is(err, errConflict), errors.Is(err, errInFlight):
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		err = fmt.Errorf("no connection to NATS at the moment: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		err = b.denied(err)
	}
	return fmt.Errorf("%s %s/%s: %w", act, b.o.Prefix.Bucket(), key, err)
}

// denied adds what the connection knows: the server drops what a user may not do, and the request
// shows as a time-out.
func (b *Bucket) denied(err error) error {
	last := b.nc.LastError()
	if errors.Is(last, nats.ErrPermissionViolation) && !subjects.RefusedAnswer(last.Error()) {
		return fmt.Errorf("%w (the server said: %w)", err, last)
	}
	return err
}
