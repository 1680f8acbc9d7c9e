package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// handshake asks for an upgrade and gives the answer.
func (st *stage) handshake(change func(http.Header)) (status int, retryAfter, body, protocol string) {
	st.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://gateway"+Path, nil)
	require.NoError(st.t, err)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if change != nil {
		change(req.Header)
	}
	res, err := st.http.Do(req)
	require.NoError(st.t, err)
	st.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, err := io.ReadAll(res.Body)
		require.NoError(st.t, err)
		body = string(b)
	}
	return res.StatusCode, res.Header.Get("Retry-After"), body, res.Header.Get("Sec-WebSocket-Protocol")
}

func TestHandshake(t *testing.T) {
	perform(t, func(c *Config) { c.Origins = []string{"app.example.com"} }, func(t *testing.T, st *stage) {
		status, _, _, protocol := st.handshake(nil)
		require.Equal(t, http.StatusSwitchingProtocols, status)
		require.Empty(t, protocol)

		offer := func(protocols string) func(http.Header) {
			return func(h http.Header) { h.Set("Sec-WebSocket-Protocol", protocols) }
		}
		status, _, body, _ := st.handshake(offer("chat, rollcall.v2.json"))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "rollcall.v1.json")
		require.Contains(t, body, "rollcall.v1.msgpack")

		status, _, _, protocol = st.handshake(offer("chat, rollcall.v1.msgpack"))
		require.Equal(t, http.StatusSwitchingProtocols, status)
		require.Equal(t, "rollcall.v1.msgpack", protocol)

		for origin, want := range map[string]int{
			"http://gateway":          101,
			"https://app.example.com": 101,
			"https://evil.example":    403,
			"null":                    403,
		} {
			status, _, _, _ = st.handshake(func(h http.Header) { h.Set("Origin", origin) })
			require.Equal(t, want, status, origin)
		}
		status, _, _, _ = st.handshake(func(h http.Header) { h.Del("Upgrade") })
		require.Equal(t, http.StatusUpgradeRequired, status)
	})
}

func TestTooManyHandshakes(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.Handshakes = 2 }, func(t *testing.T, st *stage) {
		a, b := st.dial(schema.JSON), st.dial(schema.JSON)
		status, retry, body, _ := st.handshake(nil)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "1", retry)
		require.Equal(t, "too many connections are not logged in yet\n", body)
		a.send(schema.ClientFrame{Type: schema.TypeHello, Token: "alice"})
		a.next(schema.TypeConnected)
		synctest.Wait()
		c := st.dial(schema.JSON)
		require.Equal(t, schema.CloseHelloLate, b.code())
		require.Equal(t, schema.CloseHelloLate, c.code())
		synctest.Wait()
		st.g.door.mu.Lock()
		defer st.g.door.mu.Unlock()
		require.Equal(t, 1, st.g.door.inside)
		require.Zero(t, st.g.door.handshakes)
		require.Empty(t, st.g.door.byAddr)
	})
}

func TestTooManySessions(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.Sessions = 1 }, func(t *testing.T, st *stage) {
		st.hello("alice", "d1")
		status, retry, body, _ := st.handshake(nil)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "30", retry)
		require.Equal(t, "gateway has as many connections as it takes\n", body)
	})
}

func TestDoorByAddress(t *testing.T) {
	d := door{limits: Limits{HandshakesPerAddr: 2}.withDefaults()}
	first, why := d.enter("192.0.2.1:1")
	require.Empty(t, why)
	_, why = d.enter("192.0.2.1:2")
	require.Empty(t, why)
	_, why = d.enter("192.0.2.1:3")
	require.Equal(t, refusedAddr, why)
	_, why = d.enter("192.0.2.2:1")
	require.Empty(t, why)
	for range 10 {
		_, why = d.enter("127.0.0.1:1")
		require.Empty(t, why, "proxies are there")
	}
	first()
	first()
	_, why = d.enter("192.0.2.1:3")
	require.Empty(t, why)
}

func TestPage(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hi") })
	perform(t, func(c *Config) { c.Page = page }, func(t *testing.T, st *stage) {
		res, err := st.http.Get("http://gateway/")
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "hi", string(b))
	})
}

// TestEarlyFrames sends the hello in one write with the handshake.
func TestEarlyFrames(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		c, err := st.ln.dial(context.Background(), "", "")
		require.NoError(t, err)
		defer c.Close()
		go c.Write(append([]byte("GET /ws HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
			raw(true, 1, []byte(`{"type":"hello","token":"alice"}`))...))
		go io.Copy(io.Discard, c)
		synctest.Wait()
		require.Equal(t, 1, st.g.registry.len())
	})
}

// TestSlowHandshake never ends its request's head.
func TestSlowHandshake(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		c, err := st.ln.dial(context.Background(), "", "")
		require.NoError(t, err)
		defer c.Close()
		go c.Write([]byte("GET /ws HTTP/1.1\r\nHost: gateway\r\n"))
		start := time.Now()
		io.Copy(io.Discard, c)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

// TestBodyWithoutEnd never ends its request's body, before which the server does not answer.
func TestBodyWithoutEnd(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		for _, path := range []string{"/", Path} {
			c, err := st.ln.dial(context.Background(), "", "")
			require.NoError(t, err)
			defer c.Close()
			go c.Write([]byte("POST " + path + " HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\nx"))
			start := time.Now()
			io.Copy(io.Discard, c)
			require.Equal(t, 10*time.Second, time.Since(start))
		}
		d := st.hello("alice", "d1")
		time.Sleep(time.Minute) // a session outlives the times of a request
		require.Equal(t, schema.PushWritten, st.push(d, "alice", "m", false))
		d.next(schema.TypeRecv)
	})
}

// record is a connection that notes each write.
type record struct {
	net.Conn
	writes []string
}

func (r *record) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(p))
	return len(p), nil
}
func (r *record) SetWriteDeadline(time.Time) error { return nil }

func TestWireHoldsWrites(t *testing.T) {
	r := new(record)
	w := &wire{Conn: r, budget: -1}
	w.Write([]byte("a"))
	w.holdWrites()
	w.Write([]byte("b"))
	w.Write([]byte("c"))
	require.NoError(t, w.release(time.Second))
	w.Write([]byte("d"))
	require.Equal(t, []string{"a", "bc", "d"}, r.writes)
}

// What follows a message that has taken too many bytes is not read as frames: the library, in the
// middle of one, would find a fault in it and reset the connection under the close frame.
func TestWireGivesNothingAfterItsBudget(t *testing.T) {
	client, conn := net.Pipe()
	var sent sync.WaitGroup
	sent.Go(func() {
		client.Write([]byte("frames without end"))
		client.Close()
	})
	w := &wire{Conn: conn, budget: 6}
	p := make([]byte, 64)
	n, err := w.Read(p)
	require.NoError(t, err)
	require.Equal(t, "frames", string(p[:n]))
	_, err = w.Read(p)
	require.ErrorIs(t, err, errBudget)
	w.budget = -1
	n, err = w.Read(p)
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, n)
	sent.Wait()
}

func (st *stage) request() *http.Request {
	r, err := http.NewRequest(http.MethodGet, "http://gateway"+Path, nil)
	require.NoError(st.t, err)
	return r
}
