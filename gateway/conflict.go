package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Times of a conflict.
const (
	kickRetry   = 50 * time.Millisecond // between two kicks that proved nothing
	forceMargin = 10 * time.Millisecond // the authority's clock started before its answer came here
)

// errStaleFence is returned when the owner of a route in the way knows a higher fence of the slot:
// the verdict that names the route is out of date.
var errStaleFence = errors.New("owner knows a higher fence")

// endConflicts ends the routes in a login's way, side by side by owner. It says how each ended:
//
//	answered  its owner says that it is out
//	gone      its owner is: by its key, or it met nobody three times
//	forced    neither in the time that the authority gives; the kick is repeated in the background
func (g *Gateway) endConflicts(ctx context.Context, l *life, s *session, by schema.Target, conflicts []schema.Conflict) ([]schema.End, error) {
	owners := make(map[schema.Process][]schema.Conflict)
	for _, c := range conflicts {
		owners[c.Owner] = append(owners[c.Owner], c)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ends := make([]schema.End, 0, len(conflicts))
	var failed error
	for owner, list := range owners {
		wg.Go(func() {
			some, err := g.endAt(ctx, l, s.who.UID, by, owner, list)
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, some...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	return ends, failed
}

// endAt ends the routes that one gateway process owns.
func (g *Gateway) endAt(ctx context.Context, l *life, uid schema.UID, by schema.Target, owner schema.Process, list []schema.Conflict) ([]schema.End, error) {
	start := time.Now()
	var ends []schema.End
	for {
		how, err := g.kickOnce(ctx, l, uid, by, owner, list)
		if err != nil {
			return nil, err
		}
		left := list[:0:0]
		for i, c := range list {
			switch {
			case how[i] != 0:
			case time.Since(start) >= c.Forced+forceMargin:
				how[i] = schema.EndForced
				g.chase(l, owner, kickEntry(uid, by, c))
			default:
				left = append(left, c)
				continue
			}
			ends = append(ends, schema.End{Owner: owner, Session: c.Session, How: how[i]})
		}
		if list = left; len(list) == 0 {
			return ends, nil
		}
		if err := lease.Wait(ctx, kickRetry); err != nil {
			return nil, err
		}
	}
}

// kickOnce asks an owner to end routes, and gives how each has ended; 0 where nothing was proven.
func (g *Gateway) kickOnce(ctx context.Context, l *life, uid schema.UID, by schema.Target, owner schema.Process, list []schema.Conflict) ([]schema.Ending, error) {
	entries := make([]schema.KickEntry, len(list))
	for i, c := range list {
		entries[i] = kickEntry(uid, by, c)
	}
	how := make([]schema.Ending, len(list))
	codes, err := g.kick(ctx, l, owner, entries)
	switch {
	case errors.Is(err, client.ErrGone):
		for i := range how {
			how[i] = schema.EndGone
		}
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case slices.Contains(codes, schema.CodeStale):
		return nil, fmt.Errorf("kick for %s at %s: %w", by, owner, errStaleFence)
	}
	for i, code := range codes {
		if code == schema.CodeOK || code == schema.CodeUnknown {
			how[i] = schema.EndAnswered
		}
	}
	return how, nil
}

func kickEntry(uid schema.UID, by schema.Target, c schema.Conflict) schema.KickEntry {
	return schema.KickEntry{UID: uid, Session: c.Session, Fence: by.Fence, Close: c.Close}
}

// kick ends sessions at their owner, in this process without a message.
func (g *Gateway) kick(ctx context.Context, l *life, owner schema.Process, entries []schema.KickEntry) ([]schema.Code, error) {
	if owner != l.me {
		return g.mesh.Kick(ctx, owner, entries)
	}
	codes := make([]schema.Code, len(entries))
	for i, e := range entries {
		codes[i] = g.kicked(e)
	}
	return codes, nil
}

// chase is a kick that is repeated in the background: its session was put out without its owner's
// word, or lost to one that was here before. The session's next touch is the backstop.
type chase struct {
	schema.KickEntry
	since time.Duration // by the gateway's clock; given up a TTL later
}

// maxChases bounds them; one too many is dropped.
const maxChases = 65_536

func (g *Gateway) chase(l *life, owner schema.Process, e schema.KickEntry) {
	if l.chases.len() >= maxChases {
		g.metrics.drop(dropChase)
		return
	}
	l.chases.add(owner, chase{e, g.now()})
}

// sendChases kicks at one owner, and gives those back that proved nothing.
func (g *Gateway) sendChases(ctx context.Context, l *life, owner schema.Process, batch []chase) (again []chase) {
	entries := make([]schema.KickEntry, len(batch))
	for i, c := range batch {
		entries[i] = c.KickEntry
	}
	if _, err := g.kick(ctx, l, owner, entries); err == nil || errors.Is(err, client.ErrGone) {
		return nil // out, or the owner knows a higher fence: then the order of the logins decides
	}
	ttl := g.view.Config().TTL()
	for _, c := range batch {
		if g.now()-c.since >= ttl {
			g.metrics.drop(dropChase)
			continue
		}
		again = append(again, c)
	}
	return again
}
