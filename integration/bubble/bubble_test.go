package bubble

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers on subject "echo" and counts what it got.
func echo(t *testing.T, s *Server) *atomic.Int64 {
	nc, _ := s.Dial("echo")
	n := new(atomic.Int64)
	_, err := nc.Subscribe("echo", func(m *nats.Msg) { n.Add(1); m.Respond(m.Data) })
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return n
}

func ask(t *testing.T, nc *nats.Conn) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	_, err := nc.RequestWithContext(ctx, "echo", []byte("hello\r\nPUB x 1"))
	return time.Since(start), err
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(l *Link) *Rule
		fails bool
		got   int
		after time.Duration
	}{
		{"lost before", func(l *Link) *Rule { return l.Lose("echo", 1) }, true, 0, 2 * time.Second},
		{"lost after", func(l *Link) *Rule { return l.LoseAnswer("*", 1) }, true, 1, 2 * time.Second},
		{"duplicated", func(l *Link) *Rule { return l.Duplicate("echo", 1) }, false, 2, 0},
		{"echoed", func(l *Link) *Rule { return l.Echo("echo", 1, time.Second) }, false, 2, 0},
		{"delayed", func(l *Link) *Rule { return l.Delay(">", 1, time.Second) }, false, 1, time.Second},
		{"delayed too long", func(l *Link) *Rule { return l.Delay("echo", 1, 3*time.Second) }, true, 1, 2 * time.Second},
		{"answer delayed", func(l *Link) *Rule { return l.DelayIn("_INBOX.>", 1, time.Second) }, false, 1, time.Second},
		{"its answer delayed", func(l *Link) *Rule { return l.DelayAnswer("echo", 1, time.Second) }, false, 1, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			Run(t, func(t *testing.T, s *Server) {
				got := echo(t, s)
				nc, link := s.Dial("a")
				rule := c.fault(link)
				took, err := ask(t, nc)
				require.Equal(t, c.fails, err != nil, "%v", err)
				require.Equal(t, c.after, took)
				require.Equal(t, 1, rule.Hits())
				time.Sleep(2 * time.Second)
				require.Equal(t, c.got, int(got.Load()))
				_, err = ask(t, nc)
				require.NoError(t, err, "the rule is spent")
			})
		})
	}
}

func TestCutHoldsBackAndHealDelivers(t *testing.T) {
	Run(t, func(t *testing.T, s *Server) {
		got := echo(t, s)
		nc, link := s.Dial("a")
		link.Cut()
		_, err := ask(t, nc)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, got.Load())
		link.Heal()
		_, err = ask(t, nc)
		require.NoError(t, err)
		require.EqualValues(t, 2, got.Load(), "what was written before the heal arrived too")
	})
}

func TestLongCutReconnects(t *testing.T) {
	Run(t, func(t *testing.T, s *Server) {
		echo(t, s)
		nc, link := s.Dial("a")
		link.Cut()
		time.Sleep(20 * time.Second)
		require.Equal(t, nats.RECONNECTING, nc.Status(), "two pings were missed")
		require.Equal(t, 2, s.NATS().NumClients(), "the server has not been told")
		link.Heal()
		Until(t, 2*time.Second, "reconnected", nc.IsConnected)
		_, err := ask(t, nc)
		require.NoError(t, err)
	})
}

func TestServerStopsAndStarts(t *testing.T) {
	Run(t, func(t *testing.T, s *Server) {
		nc, _ := s.Dial("a")
		s.Stop()
		Until(t, time.Second, "the client knows", func() bool { return !nc.IsConnected() })
		time.Sleep(10 * time.Second)
		s.Start()
		Until(t, 5*time.Second, "reconnected", nc.IsConnected)
	})
}

func TestListener(t *testing.T) {
	Run(t, func(t *testing.T, _ *Server) {
		ln := Listen(t)
		Go(t, func(context.Context) error {
			c, err := ln.Accept()
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write(bytes.Repeat([]byte("x"), 1<<20))
			require.NoError(t, err)
			return nil
		})
		client := NewClient()
		c, err := client.DialTo(ln)(t.Context(), "", "")
		require.NoError(t, err)
		client.Cut()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		_, err = c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout")
		client.Heal()
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		b, err := io.ReadAll(c)
		require.NoError(t, err)
		require.Len(t, b, 1<<20)
		require.NoError(t, c.Close())
	})
}

// TestEndsWhileCut has connections end while the link is cut: by a reset the process is told at
// once, by the server's end with the heal.
func TestEndsWhileCut(t *testing.T) {
	Run(t, func(t *testing.T, s *Server) {
		nc, link := s.Dial("a")
		link.Cut()
		link.Reset()
		Until(t, time.Millisecond, "told of the reset", func() bool { return !nc.IsConnected() })
		link.Heal()
		Until(t, time.Second, "reconnected", nc.IsConnected)
		link.Cut()
		s.Stop()
		time.Sleep(4 * time.Second)
		require.True(t, nc.IsConnected(), "not told yet")
		link.Heal()
		Until(t, time.Millisecond, "told of the end", func() bool { return !nc.IsConnected() })
		s.Start()
		Until(t, time.Second, "reconnected", nc.IsConnected)
	})
}
