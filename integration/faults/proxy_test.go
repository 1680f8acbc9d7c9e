package faults

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands between a process and its NATS server, and can be told to fail.
//
//	process --> listener | cut: closed, and new ones refused         | --> nats-server
//	                     | stall: bytes wait, as on a lost network   |
//	                     | rule: one message at a time may be lost   |
type proxy struct {
	// static
	listener net.Listener
	upstream string
	running  sync.WaitGroup
	end      chan struct{} // closed when the test ends

	mu      sync.Mutex
	refuse  bool
	stalled chan struct{} // not nil: nothing passes until it is closed
	rule    func(frame) bool
	conns   map[net.Conn]struct{}
}

// newProxy listens, and passes everything on to upstream.
func newProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, upstream: upstream, end: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		close(p.end)
		p.closeAll()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// cut ends all connections and refuses others for a time; it gives the moments before and after the cut.
func (p *proxy) cut(d time.Duration) (begun, done time.Time) {
	p.set(func() { p.refuse = true })
	begun = time.Now()
	p.closeAll()
	done = time.Now()
	<-time.After(d)
	p.set(func() { p.refuse = false })
	return begun, done
}

// stall holds everything back until heal: no end of a connection shows on the other side either.
func (p *proxy) stall() { p.set(func() { p.stalled = make(chan struct{}) }) }

func (p *proxy) heal() {
	p.set(func() {
		close(p.stalled)
		p.stalled = nil
	})
}

// pass sets which messages pass; nil: all.
func (p *proxy) pass(rule func(frame) bool) { p.set(func() { p.rule = rule }) }

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.await()
	server, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(client, server) {
		return
	}
	defer p.set(func() { delete(p.conns, client); delete(p.conns, server) })
	var both sync.WaitGroup
	both.Go(func() { p.relay(server, client, true) })
	both.Go(func() { p.relay(client, server, false) })
	both.Wait()
}

// keep notes two ends of a connection; false where none is to be had.
func (p *proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.ended() {
		return false
	}
	for _, c := range ends {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *proxy) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// relay passes messages on until either end is closed, which closes the other.
func (p *proxy) relay(to, from net.Conn, toServer bool) {
	defer to.Close()
	defer from.Close()
	frames := newFrames(from, toServer)
	for {
		f, err := frames.next()
		p.await()
		if err != nil {
			return
		}
		if !p.passes(f) {
			continue
		}
		if _, err := to.Write(f.bytes); err != nil {
			return
		}
	}
}

// await waits while the proxy is stalled.
func (p *proxy) await() {
	p.mu.Lock()
	stalled := p.stalled
	p.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-p.end:
		}
	}
}

func (p *proxy) passes(f frame) bool {
	p.mu.Lock()
	rule := p.rule
	p.mu.Unlock()
	return rule == nil || rule(f)
}
