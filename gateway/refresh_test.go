package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// logins knows some tokens, and what each says.
type logins struct {
	mu    sync.Mutex
	known map[string]Identity
	fails error
	slow  time.Duration
}

func (l *logins) with(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *logins) Authenticate(ctx context.Context, c Credentials) (Identity, error) {
	l.mu.Lock()
	id, ok := l.known[c.Token]
	fails, slow := l.fails, l.slow
	l.mu.Unlock()
	if lease.Wait(ctx, slow) != nil {
		return Identity{}, ctx.Err()
	}
	switch {
	case fails != nil:
		return Identity{}, fails
	case !ok:
		return Identity{}, fmt.Errorf("%w: unknown", ErrBadToken)
	}
	return id, nil
}

// said is alice's phone, as a token says it, but for change.
func phone(expires time.Time, change func(*Identity)) Identity {
	id := Identity{UID: "alice", Device: "phone", Flag: "app", Level: schema.Master, Gen: 3, TokenID: "t1", Expires: expires, Watch: []schema.UID{"bob", "carol"}}
	if change != nil {
		change(&id)
	}
	return id
}

func (d *device) refresh(id, token string) {
	d.t.Helper()
	d.send(schema.ClientFrame{Type: schema.TypeRefresh, ID: id, Token: token})
}

// refused takes the error that answers a frame.
func (d *device) refused(code schema.FrameCode, id string) schema.ServerFrame {
	d.t.Helper()
	f := d.next(schema.TypeError)
	require.Equal(d.t, code, f.Code, f.Message)
	require.Equal(d.t, id, f.ID)
	require.Zero(d.t, f.Close)
	return f
}

// TestRefreshMovesTheEnd: a session lives as long as its latest good token, be that longer or
// shorter than the one before.
func TestRefreshMovesTheEnd(t *testing.T) {
	l := new(logins)
	perform(t, func(c *Config) { c.Auth = l }, func(t *testing.T, st *stage) {
		now := time.Now()
		l.known = map[string]Identity{
			"short": phone(now.Add(time.Minute), nil), "long": phone(now.Add(time.Hour), nil),
			"shorter": phone(now.Add(472*time.Second), nil), "endless": phone(time.Time{}, nil),
		}
		d := st.hello("short", "phone")
		pass(50 * time.Second)
		d.refresh("r1", "long")
		f := d.next(schema.TypeRefreshed)
		require.Equal(t, "r1", f.ID)
		require.Equal(t, now.Add(time.Hour).Unix(), f.ExpiresAt)
		pass(5 * time.Minute)
		st.holder.end(errors.New("bucket lost"))
		st.holder.begin()
		require.Equal(t, now.Add(time.Hour).Unix(), d.next(schema.TypeConnected).ExpiresAt, "a later connected frame knows of it")
		d.refresh("r2", "endless")
		require.Zero(t, d.next(schema.TypeRefreshed).ExpiresAt)
		pass(2 * time.Minute) // 470 s have passed
		d.refresh("r3", "shorter")
		require.Equal(t, now.Add(472*time.Second).Unix(), d.next(schema.TypeRefreshed).ExpiresAt)
		require.Equal(t, schema.CloseTokenExpired, d.code(), "long before the next heartbeat")
		require.Equal(t, 472*time.Second, time.Since(now))
	})
}

// TestRefreshRefused: what is wrong with a new token costs the session nothing, and moves nothing.
func TestRefreshRefused(t *testing.T) {
	l := new(logins)
	perform(t, func(c *Config) { c.Auth = l }, func(t *testing.T, st *stage) {
		now := time.Now()
		later := now.Add(time.Hour)
		l.known = map[string]Identity{
			"good":            phone(now.Add(10*time.Minute), nil),
			"another user":    phone(later, func(id *Identity) { id.UID = "bob" }),
			"another device":  phone(later, func(id *Identity) { id.Device = "tablet" }),
			"another flag":    phone(later, func(id *Identity) { id.Flag = "web" }),
			"another level":   phone(later, func(id *Identity) { id.Level = schema.Slave }),
			"an older login":  phone(later, func(id *Identity) { id.Gen = 2 }),
			"of a newer one":  phone(now.Add(11*time.Minute), func(id *Identity) { id.Gen = 4 }),
			"good, but older": phone(later, nil),
		}
		d := st.hello("good", "phone")
		for _, token := range []string{"another user", "another device", "another flag", "another level", "an older login", "nobody's"} {
			d.refresh("r", token)
			require.False(t, d.refused(schema.FrameNotAllowed, "r").Retryable, token)
			pass(time.Second)
		}
		l.with(func() { l.fails = ErrTokenExpired })
		d.refresh("r", "good")
		d.refused(schema.FrameNotAllowed, "r")
		l.with(func() { l.fails = errors.New("backend is down") })
		d.refresh("r", "good")
		f := d.refused(schema.FrameUnavailable, "r")
		require.True(t, f.Retryable)
		require.Positive(t, f.RetryAfterMS)
		l.with(func() { l.fails, l.slow = nil, time.Hour })
		pass(time.Second)
		start := time.Now()
		d.refresh("r", "good")
		d.refused(schema.FrameUnavailable, "r")
		require.Equal(t, loginTime, time.Since(start))
		l.with(func() { l.slow = 0 })

		d.refresh("r", "of a newer one")
		d.next(schema.TypeRefreshed)
		d.refresh("r", "good, but older")
		d.refused(schema.FrameNotAllowed, "r")
		require.Equal(t, schema.CloseTokenExpired, d.code())
		require.Equal(t, 11*time.Minute, time.Since(now))
		require.Equal(t, 1.0, st.metric("refreshes_total", outcomeOK))
		require.Equal(t, 6.0, st.metric("refreshes_total", outcomeChanged))
	})
}

// TestRefreshOneAtATime, not before the login is through, and not all the time.
func TestRefreshOneAtATime(t *testing.T) {
	l := &logins{slow: time.Second}
	perform(t, func(c *Config) { c.Auth = l }, func(t *testing.T, st *stage) {
		l.known = map[string]Identity{"good": phone(time.Now().Add(time.Hour), nil)}
		d := st.dial(schema.JSON)
		d.send(schema.ClientFrame{Type: schema.TypeHello, Token: "good", Device: "phone"})
		d.refresh("early", "good")
		d.refused(schema.FrameUnavailable, "early")
		d.session = d.next(schema.TypeConnected).Session
		d.refresh("one", "good")
		d.refresh("two", "good")
		d.refused(schema.FrameInFlight, "two")
		require.Equal(t, "one", d.next(schema.TypeRefreshed).ID)
		l.with(func() { l.slow = 0 })
		pass(time.Minute)
		for range refreshBurst {
			d.refresh("x", "good")
			d.next(schema.TypeRefreshed)
		}
		d.refresh("x", "good")
		require.EqualValues(t, 1000, d.refused(schema.FrameRateLimited, "x").RetryAfterMS)
		pass(time.Second)
		d.refresh("x", "good")
		d.next(schema.TypeRefreshed)

		l.with(func() { l.slow = time.Minute })
		pass(time.Second)
		d.refresh("x", "good")
		synctest.Wait()
		d.raw.Close() // the stage's end waits for what is under way
	})
}

// TestRefreshChangesRights: who may not be watched any more is not, and the client is told; who may
// from now on, can be.
func TestRefreshChangesRights(t *testing.T) {
	l := new(logins)
	perform(t, func(c *Config) { c.Auth = l }, func(t *testing.T, st *stage) {
		l.known = map[string]Identity{
			"before": phone(time.Now().Add(time.Hour), nil),
			"after":  phone(time.Now().Add(time.Hour), func(id *Identity) { id.Watch, id.TokenID = []schema.UID{"carol", "dave"}, "t2" }),
		}
		d := st.hello("before", "phone")
		require.Len(t, d.watch("alice", "bob", "carol"), 3)
		d.refresh("r", "after")
		d.next(schema.TypeRefreshed)
		require.Equal(t, []schema.WatchedUser{{UID: "bob", State: "unknown"}}, d.next(schema.TypePresence).Users)
		require.ElementsMatch(t, []schema.UID{"alice", "carol"}, st.g.watches.watchedBy(st.sessionOf(d)))
		require.Equal(t, "t2", st.sessionOf(d).proven().TokenID)
		d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "w", UIDs: []schema.UID{"bob"}})
		d.refused(schema.FrameNotAllowed, "w")
		require.Len(t, d.watch("dave"), 1)
	})
}
