package delivery

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// MaxWatched bounds the users of one watch, each counted once. Each costs a subscription and about a
// kilobyte; who follows more uses several watches.
const MaxWatched = 10_000

// Sighting is one thing that a watch tells.
type Sighting struct {
	Kind SightingKind
	// WatchedUser is the user as it is now; none in a Resync. Reason is that of the event that
	// brought the change, and empty where a look-up did.
	schema.WatchedUser
}

// SightingKind is what a Sighting is. The set is closed.
type SightingKind string

// The kinds of sightings.
const (
	// Snapshot is a user as it was when the watch began: one for each, in the order asked.
	Snapshot SightingKind = "snapshot"
	// Changed is a user who is not as told before.
	Changed SightingKind = "changed"
	// Resync says that changes may have gone by unseen: a slot was rebuilt, the connection was
	// interrupted, or events came faster than they were taken. All users have been looked up since,
	// and what had changed has been told: the watch is true again, but it has not seen every step.
	Resync SightingKind = "resync"
)

// Watch follows users: a Snapshot of each, then a Changed for each change, and a Resync when
// changes may have been missed. Between two sightings of a user their stamps never go back, and
// offline is told only where an authority has said so; who cannot be found out about is unknown,
// and looked up again.
//
//	for seen, err := range d.Watch(ctx, uids) { ... }
//
// The sequence ends when ctx does, when the loop is left, or with an error: schema.ErrBad, ErrTooLarge
// above MaxWatched users, ErrClosed, or that the mesh can never be asked. It runs in the caller's
// goroutine, which is all that it has: while the loop's body is busy 8,192 events wait for it, 4 MiB or
// so, and what comes above that is dropped. So who is slow misses steps, and is told so by a Resync, but
// never the state.
func (d *Delivery) Watch(ctx context.Context, uids []schema.UID) iter.Seq2[Sighting, error] {
	return func(yield func(Sighting, error) bool) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(d.life, func() { end(ErrClosed) })()
		look := func(ctx context.Context, uids []schema.UID) ([]Found, error) { return d.lookup(ctx, uids, 0) }
		w := newWatch(d.nc, d.s.prefix, look, uids, yield)
		w.lost = d.meter.resyncs.Inc
		d.meter.watches.Add(float64(len(w.users)))
		defer d.meter.watches.Sub(float64(len(w.users)))
		w.run(ctx)
	}
}

// WatchBy is Watch for who cannot read the mesh's bucket: it hears of events on nc, and looks up by
// look, which answers as Lookup does; for example with what the service presence says. An error of
// its first look-up ends the sequence, a later one leaves the users to the next, 2 s after.
func WatchBy(ctx context.Context, nc *nats.Conn, prefix string, look func(context.Context, []schema.UID) ([]Found, error), uids []schema.UID) iter.Seq2[Sighting, error] {
	return func(yield func(Sighting, error) bool) {
		newWatch(nc, subjects.Prefix(prefix), look, uids, yield).run(ctx)
	}
}

// errLeft is returned when the consumer has left the loop.
var errLeft = errors.New("watch is not followed any more")

// run tells until there is nobody to tell, and of an error last.
func (w *watch) run(ctx context.Context) {
	err := checkUIDs(w.order)
	if n := len(w.users); err == nil && n > MaxWatched {
		err = fmt.Errorf("%w: %d users: a watch takes at most %d", ErrTooLarge, n, MaxWatched)
	}
	if err == nil {
		err = w.follow(ctx)
	}
	ended := ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrClosed)
	if err == nil || ended || errors.Is(err, errLeft) {
		return
	}
	w.yield(Sighting{}, fmt.Errorf("watch: %w", err))
}
