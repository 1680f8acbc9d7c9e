package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// until is a connected frame of a token that ends then.
func until(end time.Time) schema.ServerFrame {
	f := connected("s1")
	f.ExpiresAt = end.Unix()
	return f
}

// numbered gives the tokens t1, t2 and so on.
func numbered() func(context.Context) (string, error) {
	var n atomic.Int32
	return func(context.Context) (string, error) { return fmt.Sprintf("t%d", n.Add(1)), nil }
}

// TestRefresh: the session gets new tokens in time, and a later one begins with the newest.
func TestRefresh(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(func(c *client.Config) { c.RefreshBefore, c.Token = 10*time.Minute, numbered() })
		c := w.dialled()
		require.Equal(t, "t1", c.next(schema.TypeHello).Token)
		end := time.Now().Add(time.Hour)
		c.send(until(end))
		for n := range 3 {
			f := c.next(schema.TypeRefresh)
			require.Equal(t, fmt.Sprintf("t%d", n+2), f.Token)
			left := time.Until(end)
			require.LessOrEqual(t, left, 10*time.Minute)
			require.Greater(t, left, 5*time.Minute-2*time.Second)
			end = time.Now().Add(time.Hour)
			c.send(schema.ServerFrame{Type: schema.TypeRefreshed, ID: f.ID, ExpiresAt: end.Unix()})
			time.Sleep(time.Millisecond)
			info, ok := r.Session()
			require.True(t, ok)
			require.Equal(t, end.Unix(), info.ExpiresAt.Unix())
			require.EqualValues(t, "s1", info.Session)
		}
		c.ws.CloseNow()
		_, hello := w.accept("s2")
		require.Equal(t, "t4", hello.Token)
		r.end(t)
	})
}

// TestRefreshFails: what fails is tried again while there is time, and the session goes on.
func TestRefreshFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		tokens := numbered()
		r := w.start(func(c *client.Config) {
			c.RefreshBefore = 10 * time.Minute
			c.Token = func(ctx context.Context) (string, error) {
				token, _ := tokens(ctx)
				if token == "t2" {
					return "", errors.New("login service is down")
				}
				return token, nil
			}
		})
		c := w.dialled()
		c.next(schema.TypeHello)
		begin := time.Now()
		c.send(until(begin.Add(20 * time.Second))) // shorter than RefreshBefore
		f := c.next(schema.TypeRefresh)
		require.Equal(t, "t3", f.Token, "t2 was never given out")
		require.InDelta(t, 15, time.Since(begin).Seconds(), 1)
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: f.ID, Code: schema.FrameUnavailable, Retryable: true})
		f = c.next(schema.TypeRefresh)
		require.InDelta(t, 17.5, time.Since(begin).Seconds(), 1)
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: f.ID, Code: schema.FrameNotAllowed})
		c.next(schema.TypeRefresh) // not answered any more
		time.Sleep(20 * time.Second)
		c.ws.Close(3005, "token expired")
		_, hello := w.accept("s2")
		require.Greater(t, hello.Token, "t5", "a token of its own")
		r.end(t)
	})
}

// TestRefreshIsNotAskedFor by default, of tokens without an end, and of a gateway that knows none.
func TestRefreshIsNotAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Duration
		end    bool
	}{"by default": {0, true}, "no end": {time.Minute, false}, "unknown": {time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := w.start(func(cfg *client.Config) { cfg.RefreshBefore = c.before })
				conn := w.dialled()
				conn.next(schema.TypeHello)
				f := until(time.Now().Add(time.Hour))
				if !c.end {
					f.ExpiresAt = 0
				}
				conn.send(f)
				if name == "unknown" {
					conn.send(schema.ServerFrame{Type: schema.TypeError, ID: conn.next(schema.TypeRefresh).ID, Code: schema.FrameUnsupported})
				}
				time.Sleep(2 * time.Hour)
				require.Empty(t, conn.frames)
				r.end(t)
			})
		})
	}
}
