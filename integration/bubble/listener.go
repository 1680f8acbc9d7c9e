package bubble

import (
	"context"
	"net"
	"sync"
	"testing"
)

// Listener is a net.Listener without a network: for an http.Server, or a gateway's listener.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen makes a listener that is closed when the test ends.
func Listen(t *testing.T) *Listener {
	l := &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	return l
}

// Accept gives the next dialled connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Dial; connections stay.
func (l *Listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr looks like one on loopback.
func (l *Listener) Addr() net.Addr { return loopback }

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} // never changed

// accepted is the server's end of a connection: it seems to come from loopback.
type accepted struct{ net.Conn }

func (accepted) LocalAddr() net.Addr  { return loopback }
func (accepted) RemoteAddr() net.Addr { return loopback }

// window is about what the kernels hold of a connection that nobody reads.
const window = 64 << 10

// Dial connects; it fits http.Transport.DialContext.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return NewClient().dialTo(ctx, l)
}

// NewClient makes a link for connections to a Listener, to be cut and healed: a client whose
// network goes silent, or who does not read.
func NewClient() *Link { return &Link{wires: map[*wire]struct{}{}} }

// DialTo gives a dial function over the link that fits http.Transport.DialContext.
func (l *Link) DialTo(to *Listener) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dialTo(ctx, to) }
}

func (l *Link) dialTo(ctx context.Context, to *Listener) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case to.conns <- accepted{far}:
		return l.open(near, rawFrame, window), nil
	case <-to.done:
		return nil, &net.OpError{Op: "dial", Net: "bubble", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
