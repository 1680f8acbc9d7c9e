package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipes is a listener whose connections are pipes, so that time is virtual.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// dial connects, unless the listener is closed.
func (p *pipes) dial(t *testing.T) (net.Conn, error) {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// call sends a request of which the body has yet to come, and gives the connection.
func (p *pipes) call(t *testing.T, path string, length int) net.Conn {
	t.Helper()
	c, err := p.dial(t)
	require.NoError(t, err)
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: api\r\nContent-Length: %d\r\n\r\n", path, length)
	require.NoError(t, err)
	return c
}

// answered waits for the answer on a connection, and gives its status and body.
func answered(t *testing.T, c net.Conn) (int, string) {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

// served runs a test against the API's listener with a handler; stop ends it and waits for that.
func served(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, p *pipes, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serveAPI(p, handler, slog.New(slog.DiscardHandler))(ctx) }()
		var once sync.Once
		stop := func() {
			once.Do(func() {
				cancel()
				require.NoError(t, <-ended)
			})
		}
		defer stop()
		test(t, p, stop)
	})
}

// Who sends or reads slowly has a time for it, then its connection is closed.
func TestSlowClientsOfTheAPI(t *testing.T) {
	var wrote time.Duration
	handler := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		begun := time.Now()
		_, _ = w.Write(make([]byte, 1<<20))
		wrote = time.Since(begun)
	}
	served(t, handler, func(t *testing.T, p *pipes, _ func()) {
		begun := time.Now()
		head, err := p.dial(t)
		require.NoError(t, err)
		_, err = io.WriteString(head, "POST /v1/push HT")
		require.NoError(t, err)
		_, err = io.ReadAll(head)
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(begun))

		begun = time.Now()
		body := p.call(t, "/", 10)
		_, err = io.WriteString(body, "12345")
		require.NoError(t, err)
		status, _ := answered(t, body)
		require.Equal(t, http.StatusRequestTimeout, status)
		require.Equal(t, apiRead, time.Since(begun))

		p.call(t, "/", 0) // and reads nothing
		time.Sleep(apiWrite + time.Second)
		synctest.Wait()
		require.Equal(t, apiWrite, wrote)

		long, err := p.dial(t)
		require.NoError(t, err)
		go func() {
			_, _ = io.WriteString(long, "POST /v1/push HTTP/1.1\r\nHost: api\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
		}()
		status, _ = answered(t, long)
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
		long.Close()
	})
}

// At the end calls under way are answered: those that take a moment as ever, those that wait for long
// with what is known by then. Who does not read is cut off.
func TestCallsUnderWayAtTheEndOfTheAPI(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		takes, _ := time.ParseDuration(r.URL.Path[1:])
		select {
		case <-time.After(takes):
			_, _ = io.WriteString(w, "whole")
		case <-r.Context().Done():
			_, _ = io.WriteString(w, "known")
		}
	}
	served(t, handler, func(t *testing.T, p *pipes, stop func()) {
		begun := time.Now()
		var wg sync.WaitGroup
		for _, c := range []struct {
			path, want string
			at         time.Duration
		}{{"/3s", "whole", 3 * time.Second}, {"/1m", "known", apiDrain}} {
			conn := p.call(t, c.path, 0)
			wg.Go(func() {
				status, body := answered(t, conn)
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, c.want, body)
				require.Equal(t, c.at, time.Since(begun))
			})
		}
		synctest.Wait()
		stop()
		wg.Wait()
		require.LessOrEqual(t, time.Since(begun), apiDrain+apiLast)
		_, err := p.dial(t)
		require.ErrorIs(t, err, net.ErrClosed)
	})
}
