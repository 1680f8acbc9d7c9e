package lease

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// noticeQueue bounds the notices not yet taken. Beyond it the client library drops them, which
// shows as a gap in their revisions, and a snapshot follows.
const noticeQueue = 4096

// Where the server's republish names the revision, and its time.
const (
	sequenceHeader = "Nats-Sequence"
	timeHeader     = "Nats-Time-Stamp"
)

// Run keeps the view until ctx ends: notices as they come; a snapshot at the start, on each
// reconnect, when a notice was lost, and about every lease. It returns nil when ctx ended, and an
// error when the connection was closed.
func (v *View) Run(ctx context.Context) error {
	notices := make(chan *nats.Msg, noticeQueue)
	sub, err := v.b.nc.ChanSubscribe(v.b.o.Prefix.Changed(), notices)
	if err != nil {
		return fmt.Errorf("subscribe to the bucket's changes: %w", err)
	}
	defer sub.Unsubscribe()
	status := v.b.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer v.b.nc.RemoveStatusListener(status)

	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { v.snapshots(ctx) })
	return v.follow(ctx, notices, status)
}

func (v *View) follow(ctx context.Context, notices <-chan *nats.Msg, status <-chan nats.Status) error {
	tick := time.NewTicker(v.b.Config().Renew())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-notices:
			v.notice(m)
		case u := <-v.inbox:
			v.change(u.apply)
			close(u.done)
		case s := <-status:
			if s == nats.CLOSED {
				return fmt.Errorf("follow the bucket: %w", nats.ErrConnectionClosed)
			}
			v.connection(s)
		case <-tick.C:
			v.change(func(t *table, now time.Time) []Change {
				return t.expire(func(since time.Time) time.Duration { return v.b.reach.quiet(since, now) })
			})
		}
	}
}

// connection takes that the connection was lost, which silences everybody, or is back.
func (v *View) connection(s nats.Status) {
	if s == nats.CONNECTED {
		v.want()
		return
	}
	v.b.reach.failed()
}

// notice takes one republished change. What a consumer delivers here is none: it has the subject that it
// was stored under.
func (v *View) notice(m *nats.Msg) {
	key, ok := v.b.o.Prefix.ParseChanged(m.Subject)
	rev, err := strconv.ParseUint(serverSays(m.Header, sequenceHeader), 10, 64)
	if !ok || err != nil {
		v.log.Warn("notice without a key or a revision", "subject", m.Subject)
		return
	}
	at, _ := time.Parse(time.RFC3339Nano, serverSays(m.Header, timeHeader)) // zero where it is missing
	e := entry{key: key, rev: schema.Revision(rev), marker: isMarker(m.Header), data: m.Data, at: at}
	odd, again := false, false
	v.change(func(t *table, now time.Time) []Change {
		odd = e.rev < t.held(key)
		if again = t.seen.notice(e.rev); again {
			t.lose(e.rev - 1)
		}
		odd = odd || again || t.seen.gap()
		return t.put(e, now, false)
	})
	if again {
		v.log.Warn("a revision of the bucket is given out again: its log has lost its tail", "revision", e.rev, "key", key)
	}
	if odd {
		v.want()
	}
}

// serverSays gives a header of the server's: it stands behind any of that name which the writer of the
// message has given.
func serverSays(h nats.Header, name string) string {
	values := h.Values(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// change is the one place where the table changes: under the lock, and told after it.
func (v *View) change(apply func(t *table, now time.Time) []Change) {
	v.mu.Lock()
	changes := apply(v.t, time.Now())
	v.mu.Unlock()
	for _, c := range changes {
		if c.Config != nil {
			v.b.setConfig(*c.Config)
		}
	}
	v.tell(changes)
}

// take has Run make a change, and waits for it.
func (v *View) take(ctx context.Context, apply func(t *table, now time.Time) []Change) error {
	u := update{apply: apply, done: make(chan struct{})}
	select {
	case v.inbox <- u:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	<-u.done
	return nil
}

// want asks for a snapshot.
func (v *View) want() {
	select {
	case v.stale <- struct{}{}:
	default:
	}
}
