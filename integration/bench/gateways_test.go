package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/schema"
)

// gateSubject is where the first process holds the sockets back or lets them go.
const gateSubject = "bench.gate"

// gateways runs gateways whose clients are mute: real sessions on connections without a socket,
// since a socket write costs ten times what is measured. args: the server's address, how many
// gateways, how many sessions on each.
func gateways(ctx context.Context, args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	sessions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	hall := newHall(count * sessions)
	ctx, fail := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer fail(nil)
	for i := range count {
		run, err := newGateway(ctx, args[0], i, hall, sessions)
		if err != nil {
			return err
		}
		running.Go(func() { fail(run(ctx)) })
	}
	operator, err := dial(args[0], deploy.Operator, "bench/gate")
	if err != nil {
		return err
	}
	defer operator.Close()
	if _, err := operator.Subscribe(gateSubject, hall.gate); err != nil {
		return err
	}
	select {
	case <-hall.full:
		ready(args[0])
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// newGateway makes the i-th gateway, with the clients of its users waiting at the door.
func newGateway(ctx context.Context, address string, i int, hall *hall, sessions int) (run func(context.Context) error, err error) {
	name := fmt.Sprintf("gw-%d", i)
	control, err := dial(address, deploy.Gateway, "gateway/"+name+"/control")
	if err != nil {
		return nil, err
	}
	push, err := dial(address, deploy.Gateway, "gateway/"+name+"/push")
	if err != nil {
		return nil, err
	}
	bucket, err := lease.Open(ctx, control, lease.Options{})
	if err != nil {
		return nil, err
	}
	view := lease.NewView(bucket, nil)
	door := &door{hall: hall, coming: make(chan net.Conn, sessions), closed: make(chan struct{})}
	g, err := gateway.New(gateway.Conns{Control: control, Push: push}, bucket, view, gateway.Config{
		Node: schema.NodeID(name), Listeners: []gateway.Listener{{Name: "ws", Listener: door}}, Auth: gateway.Insecure{},
		Limits: gateway.Limits{QueueFrames: 1 << 20, QueueBytes: 1 << 30, WriteTimeout: time.Hour},
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		below, stop := context.WithCancel(context.WithoutCancel(ctx))
		var running sync.WaitGroup
		running.Go(func() { view.Run(below) })
		running.Go(func() {
			for poll := time.Tick(10 * time.Millisecond); g.Ready() != nil && below.Err() == nil; <-poll {
			}
			for n := range sessions {
				door.coming <- newMute(hall, mutes(i*sessions+n))
			}
		})
		err := g.Run(ctx)
		stop()
		running.Wait()
		control.Close()
		push.Close()
		return err
	}, nil
}

// mutes names the i-th mute user.
func mutes(i int) schema.UID { return name("mute", i) }

// hall is what all mute connections share.
type hall struct {
	full chan struct{} // closed when everyone is in

	mu      sync.Mutex
	missing int
	open    chan struct{} // closed while writes pass

	writes atomic.Uint64
}

func newHall(missing int) *hall {
	h := &hall{full: make(chan struct{}), missing: missing, open: make(chan struct{})}
	close(h.open)
	return h
}

func (h *hall) in() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.missing--; h.missing == 0 {
		close(h.full)
	}
}

func (h *hall) passage() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// gate answers "hold" at once, and "open" when what was held back is written.
func (h *hall) gate(m *nats.Msg) {
	h.mu.Lock()
	if string(m.Data) == "hold" {
		h.open = make(chan struct{})
	} else {
		close(h.open)
	}
	h.mu.Unlock()
	if string(m.Data) == "open" {
		for last := ^uint64(0); last != h.writes.Load(); <-time.After(50 * time.Millisecond) {
			last = h.writes.Load()
		}
	}
	m.Respond(nil)
}

// door is a listener that mute connections come in by.
type door struct {
	hall   *hall
	coming chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.coming:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error { d.once.Do(func() { close(d.closed) }); return nil }

func (d *door) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// mute is the gateway's end of a connection whose client says hello and nothing more, and hears
// nothing of what it is told.
type mute struct {
	hall *hall
	says [][]byte // one after each answer

	mu       sync.Mutex
	changed  sync.Cond
	heard    int // writes so far: what it may say next
	deadline time.Time
	closed   bool
	in       bool
}

func newMute(h *hall, uid schema.UID) *mute {
	const handshake = "GET /ws HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	hello := fmt.Sprintf(`{"type":"hello","token":%q,"device":"d"}`, string(uid))
	frame := append([]byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0}, hello...) // a text, masked with zeroes
	m := &mute{hall: h, says: [][]byte{[]byte(handshake), frame}}
	m.changed.L = &m.mu
	return m
}

func (m *mute) Read(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		switch {
		case m.closed:
			return 0, net.ErrClosed
		case !m.deadline.IsZero() && !time.Now().Before(m.deadline):
			return 0, os.ErrDeadlineExceeded
		case m.heard < len(m.says) && len(m.says[m.heard]) > 0:
			n := copy(b, m.says[m.heard])
			m.says[m.heard] = m.says[m.heard][n:]
			return n, nil
		}
		m.changed.Wait()
	}
}

func (m *mute) Write(b []byte) (int, error) {
	<-m.hall.passage()
	m.hall.writes.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, net.ErrClosed
	}
	if m.heard < len(m.says) {
		m.heard++
		m.changed.Broadcast()
	}
	if !m.in && bytes.Contains(b, []byte(`"connected"`)) {
		m.in = true
		m.hall.in()
	}
	return len(b), nil
}

func (m *mute) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.in && !m.closed {
		fmt.Fprintln(os.Stderr, "a mute client was not let in")
	}
	m.closed = true
	m.changed.Broadcast()
	return nil
}

func (m *mute) SetReadDeadline(t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deadline = t
	m.changed.Broadcast()
	if wait := time.Until(t); wait > 0 {
		time.AfterFunc(wait, m.changed.Broadcast)
	}
	return nil
}

func (m *mute) SetDeadline(t time.Time) error    { return m.SetReadDeadline(t) }
func (m *mute) SetWriteDeadline(time.Time) error { return nil }
func (m *mute) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (m *mute) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
