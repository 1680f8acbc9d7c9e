package bubble

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Server is the embedded NATS server of a bubble.
type Server struct {
	t   *testing.T
	o   Options
	dir string

	mu    sync.Mutex
	s     *server.Server // nil while stopped
	links []*Link
}

// Start starts the server on what it had stored.
func (s *Server) Start() {
	s.t.Helper()
	opts := &server.Options{}
	if s.o.Config != "" {
		require.NoError(s.t, opts.ProcessConfigString(s.o.Config))
	}
	opts.DontListen, opts.JetStream, opts.StoreDir = true, true, s.dir
	opts.NoLog, opts.NoSigs = true, true
	srv, err := server.NewServer(opts)
	require.NoError(s.t, err)
	srv.Start()
	require.True(s.t, srv.ReadyForConnections(5*time.Second))
	s.mu.Lock()
	s.s = srv
	s.mu.Unlock()
}

// Stop stops the server: every connection ends. What it had stored stays.
func (s *Server) Stop() {
	s.mu.Lock()
	srv := s.s
	s.s = nil
	s.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Wipe removes what a stopped server had stored.
func (s *Server) Wipe() {
	s.t.Helper()
	left, err := filepath.Glob(filepath.Join(s.dir, "*"))
	require.NoError(s.t, err)
	for _, path := range left {
		require.NoError(s.t, os.RemoveAll(path))
	}
}

// Keep stops the server for a moment and copies what it had stored. What it gives takes a server back
// there, as a crash of its machine does that loses the tail of its log.
func (s *Server) Keep() (loseTail func()) {
	s.t.Helper()
	kept := s.t.TempDir()
	s.Stop()
	require.NoError(s.t, os.CopyFS(kept, os.DirFS(s.dir)))
	s.Start()
	return func() {
		s.t.Helper()
		s.Stop()
		s.Wipe()
		require.NoError(s.t, os.CopyFS(s.dir, os.DirFS(kept)))
		s.Start()
	}
}

// NATS is the server itself, nil while stopped.
func (s *Server) NATS() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

// Dial connects a process as rollcall does: no buffer for writes while it is not connected, pings
// every 5 s, reconnects for ever. opts may change that. The connection is closed when the test
// ends. More connections of the same process go through the same link: Link.Dial.
func (s *Server) Dial(name string, opts ...nats.Option) (*nats.Conn, *Link) {
	s.t.Helper()
	l := s.NewLink()
	return l.Dial(name, opts...), l
}

// NewLink makes a link without a connection.
func (s *Server) NewLink() *Link {
	l := &Link{s: s, wires: map[*wire]struct{}{}}
	s.mu.Lock()
	s.links = append(s.links, l)
	s.mu.Unlock()
	return l
}

// end stops the server and closes what links still hold.
func (s *Server) end() {
	s.mu.Lock()
	links := s.links
	s.mu.Unlock()
	for _, l := range links {
		l.Reset()
	}
	s.Stop()
}
