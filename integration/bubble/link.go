package bubble

import (
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Link is the network between one process and the server. It outlives the connections that run
// over it, so that a process which reconnects meets the same faults.
type Link struct {
	s *Server // nil: a link of a Listener

	mu    sync.Mutex
	cut   bool
	rules []*Rule
	wires map[*wire]struct{}
}

// Dial connects over the link; see Server.Dial.
func (l *Link) Dial(name string, opts ...nats.Option) *nats.Conn {
	l.s.t.Helper()
	all := append([]nats.Option{
		nats.InProcessServer(l), nats.Name(name),
		nats.ReconnectBufSize(-1), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.Timeout(2 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // not to stderr
	}, opts...)
	nc, err := nats.Connect("", all...)
	require.NoError(l.s.t, err)
	l.s.t.Cleanup(nc.Close)
	return nc
}

// InProcessConn opens one connection to the server, for nats.InProcessServer. There is none while
// the link is cut or the server stopped.
func (l *Link) InProcessConn() (net.Conn, error) {
	srv := l.s.NATS()
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if srv == nil || cut {
		return nil, &net.OpError{Op: "dial", Net: "bubble", Err: errUnreachable}
	}
	far, err := srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	return l.open(far, natsFrame, 0), nil
}

// Cut holds back everything in both directions. Neither side is told: writes go into buffers, and
// a connection closed meanwhile stays open at the server.
func (l *Link) Cut() { l.setCut(true) }

// Heal lets pass what was held back, in order, and what comes from now on. That includes what a
// process had written before it closed its connection.
func (l *Link) Heal() { l.setCut(false) }

func (l *Link) setCut(cut bool) {
	l.mu.Lock()
	l.cut = cut
	wires := l.wiresLocked()
	l.mu.Unlock()
	for _, w := range wires {
		w.wake()
	}
}

// Reset breaks the connections over the link: both sides are told at once.
func (l *Link) Reset() {
	l.mu.Lock()
	wires := l.wiresLocked()
	l.mu.Unlock()
	for _, w := range wires {
		w.kill()
	}
}

func (l *Link) wiresLocked() []*wire {
	out := make([]*wire, 0, len(l.wires))
	for w := range l.wires {
		out = append(out, w)
	}
	return out
}

func (l *Link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// tap tells who listens of a message that the process has published.
func (l *Link) tap(f *frame) {
	if l.s != nil && l.s.o.Tap != nil && f.subject != "" {
		l.s.o.Tap(Published{Subject: f.subject, Reply: f.reply, Data: f.payload()})
	}
}
