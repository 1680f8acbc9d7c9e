package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// The whole table: what the client does depends on the code alone.
func TestCloseCodes(t *testing.T) {
	for _, code := range append(schema.CloseCodes(), 3499, 3599, 4000) {
		if code == schema.CloseAbnormal {
			continue // never on the wire: TestConnectionCut
		}
		bubble(t, func(t *testing.T, w *world) {
			r := w.start(nil)
			c, _ := w.accept("s1")
			c.ws.Close(websocket.StatusCode(code), "because")
			if code.Action() == schema.ActionStop {
				<-r.ended
				require.ErrorIs(t, r.err, client.ErrStopped)
				lost, ok := errors.AsType[*client.LostError](r.err)
				require.True(t, ok)
				require.Equal(t, code, lost.Code)
				require.Equal(t, "because", lost.Reason)
				require.ErrorIs(t, r.Ready(t.Context()), client.ErrStopped)
				return
			}
			_, hello := w.accept("s2")
			require.Equal(t, schema.SessionID("s1"), hello.Resume)
			want := 1
			if code.Action() == schema.ActionNewToken {
				want = 2
			}
			require.Equal(t, want, r.tokens, "%s", code)
			r.end(t)
		})
	}
}

func TestConnectionCut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		c, _ := w.accept("s1")
		c.ws.CloseNow()
		c, _ = w.accept("s2")

		// A proxy swallows the close frame: the error frame before it says as much.
		c.send(schema.ServerFrame{Type: schema.TypeError, Code: schema.FrameNotAllowed, Message: "another login", Close: schema.CloseKicked})
		c.ws.CloseNow()
		<-r.ended
		require.ErrorIs(t, r.err, client.ErrStopped)
		require.ErrorContains(t, r.err, "3502 (kicked by another login): another login")
	})
}

// A refusal at hello, its hint, and the states that an application sees.
func TestRetryAfter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		require.Equal(t, client.Connecting, (<-r.states).Phase)
		c := w.dialled()
		c.next(schema.TypeHello)
		c.send(schema.ServerFrame{Type: schema.TypeError, Code: schema.FrameUnavailable, Retryable: true, RetryAfterMS: 4000, Close: schema.CloseNotNow})
		c.ws.Close(1013, "no NATS")
		closed := time.Now()
		waiting := <-r.states
		require.Equal(t, client.Waiting, waiting.Phase)
		require.ErrorContains(t, waiting.Err, "1013 (gateway cannot serve this now): no NATS")
		require.GreaterOrEqual(t, waiting.Delay, 4*time.Second)
		require.LessOrEqual(t, waiting.Delay, 4500*time.Millisecond)
		w.accept("s1")
		require.Equal(t, waiting.Delay, time.Since(closed))
		r.end(t)
	})
}

func TestRefusedUpgrade(t *testing.T) {
	for status, stop := range map[int]bool{400: true, 403: true, 404: false, 429: false, 500: false, 503: false} {
		bubble(t, func(t *testing.T, w *world) {
			var asked atomic.Int64
			w.refuse = func(rw http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				rw.Header().Set("Retry-After", "7")
				http.Error(rw, "go away", status)
			}
			r := w.start(nil)
			if stop {
				<-r.ended
				require.ErrorIs(t, r.err, client.ErrStopped)
				require.ErrorContains(t, r.err, "go away")
				require.EqualValues(t, 1, asked.Load())
				return
			}
			time.Sleep(7 * time.Second)
			require.EqualValues(t, 1, asked.Load(), "%d: not before Retry-After", status)
			time.Sleep(501 * time.Millisecond)
			synctest.Wait()
			require.EqualValues(t, 2, asked.Load(), "%d", status)
			r.end(t)
		})
	}
}

// A wrong path, or a proxy in between, answers with a page.
func TestAPageIsNoReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.refuse = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			rw.Write([]byte("<!doctype html>"))
		}
		r := w.start(nil)
		s := <-r.states
		for s.Phase != client.Waiting {
			s = <-r.states
		}
		require.ErrorContains(t, s.Err, "HTTP status 200")
		require.NotContains(t, s.Err.Error(), "doctype")
		r.end(t)
	})
}

func TestTokenFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		calls := 0
		r := w.start(func(c *client.Config) {
			c.Token = func(context.Context) (string, error) {
				if calls++; calls < 3 {
					return "", errors.New("login service is down")
				}
				return "", errors.Join(client.ErrStopped, errors.New("password changed"))
			}
		})
		<-r.ended
		require.ErrorIs(t, r.err, client.ErrStopped)
		require.ErrorContains(t, r.err, "password changed")
		require.Equal(t, 3, calls)
	})
}

// Nothing answers hello.
func TestHelloUnanswered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		first := w.dialled()
		second := w.dialled()
		require.GreaterOrEqual(t, second.at.Sub(first.at), 15*time.Second)
		require.LessOrEqual(t, second.at.Sub(first.at), 15*time.Second+500*time.Millisecond)
		r.end(t)
	})
}

// While both sides live, neither is silent for 30 s, and the session stays.
func TestKeepalive(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.pongs = false
		r := w.start(nil)
		c, _ := w.accept("s1")
		last := time.Now()
		for range 200 {
			c.next(schema.TypePing)
			require.LessOrEqual(t, time.Since(last), 30*time.Second)
			last = time.Now()
			c.send(schema.ServerFrame{Type: schema.TypePong})
		}
		require.GreaterOrEqual(t, time.Since(c.at), time.Hour)
		r.end(t)
	})
}

// The gateway's WebSocket pings are life too.
func TestWebSocketPingIsLife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.pongs = false
		r := w.start(nil)
		c, _ := w.accept("s1")
		for range 30 {
			time.Sleep(50 * time.Second)
			require.NoError(t, c.ws.Ping(t.Context()))
		}
		_, ok := r.Session()
		require.True(t, ok)
		r.end(t)
	})
}

// Two heartbeats of silence: ping; five more seconds: another connection.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.pongs = false
		r := w.start(nil)
		c, _ := w.accept("s1")
		var pings []time.Duration
		for begin := time.Now(); ; {
			select {
			case f := <-c.frames:
				require.Equal(t, schema.TypePing, f.Type)
				pings = append(pings, time.Since(begin))
				continue
			case <-c.ended:
				require.Equal(t, 65*time.Second, time.Since(begin))
			}
			break
		}
		require.Equal(t, []time.Duration{25 * time.Second, 50 * time.Second, 60 * time.Second}, pings)
		w.accept("s2")
		for s := range r.states {
			if s.Phase == client.Waiting {
				require.ErrorContains(t, s.Err, "3002 (heartbeat missed)")
				break
			}
		}
		r.end(t)
	})
}

// The gateway has closed, and the client writes before it has read that: the code counts.
func TestWriteFailsBeforeTheCloseIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		broken := make(chan struct{})
		r := w.start(func(c *client.Config) { c.HTTPClient = faultyClient(w, broken, net.ErrClosed) })
		c, _ := w.accept("s1")
		require.NoError(t, r.Ready(t.Context()))
		close(broken)
		time.AfterFunc(500*time.Millisecond, func() { c.ws.Close(websocket.StatusCode(schema.CloseReplaced), "") })
		_, err := r.Send(t.Context(), []byte(`1`))
		require.ErrorIs(t, err, client.ErrLost)
		<-r.ended
		require.ErrorContains(t, r.err, "3503")
	})
}

// faultyClient dials like w's own client; once fault is closed, what it writes goes nowhere, with
// the error given.
func faultyClient(w *world, fault <-chan struct{}, err error) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, dialErr := w.ln.dial(ctx, network, addr)
		return faultyConn{c, fault, err}, dialErr
	}}}
}

type faultyConn struct {
	net.Conn
	fault <-chan struct{}
	err   error
}

func (c faultyConn) Write(b []byte) (int, error) {
	select {
	case <-c.fault:
		return len(b), c.err
	default:
		return c.Conn.Write(b)
	}
}
