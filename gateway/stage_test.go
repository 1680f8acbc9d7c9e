package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a gateway in a bubble, with everything around it played by the test.
type stage struct {
	*fakeMesh
	*fakeView
	*fakeBus
	t      *testing.T
	g      *Gateway
	ln     *pipeListener
	http   *http.Client
	holder *fakeHolder
	stop   context.CancelFunc
	done   chan struct{}
	err    error // of Run, after done
}

// perform runs a test on a stage. change may change the gateway's config.
func perform(t *testing.T, change func(*Config), test func(t *testing.T, st *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := &stage{
			t: t, fakeMesh: newFakeMesh(), fakeView: newFakeView(), fakeBus: new(fakeBus),
			ln: newPipeListener(), holder: newFakeHolder(), done: make(chan struct{}),
		}
		st.fakeMesh.view = st.fakeView
		c := Config{Node: "gw-1", Listeners: []Listener{{"ws", st.ln}}, Auth: Insecure{}}
		if change != nil {
			change(&c)
		}
		c = c.withDefaults()
		require.NoError(t, c.validate())
		st.g = newGateway(st.fakeBus, st.fakeBus, st.fakeView, c)
		st.g.mesh, st.g.holder = st.fakeMesh, st.holder
		st.g.changes = st.fakeView.subscribe
		transport := &http.Transport{DialContext: st.ln.dial, DisableKeepAlives: true}
		st.http = &http.Client{Transport: transport}
		var ctx context.Context
		ctx, st.stop = context.WithCancel(context.Background())
		go func() {
			defer close(st.done)
			st.err = st.g.Run(ctx)
		}()
		t.Cleanup(func() {
			st.stop()
			<-st.done
			transport.CloseIdleConnections()
			synctest.Wait()
		})
		synctest.Wait()
		test(t, st)
	})
}

// pass lets time pass, and what it brings about.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// me is the process that the gateway is at the moment.
func (st *stage) me() schema.Process {
	st.t.Helper()
	l := st.g.life.Load()
	require.NotNil(st.t, l, "gateway has a life")
	return l.me
}

// device is a client, played by the test.
type device struct {
	t      *testing.T
	ws     *websocket.Conn
	raw    net.Conn
	enc    schema.Encoding
	frames chan schema.ServerFrame
	ended  chan struct{}
	err    error // why reading ended, after ended

	session schema.SessionID
	silent  atomic.Bool  // it does not answer pings
	muted   atomic.Bool  // it does not read from its socket any more
	reads   atomic.Int32 // that gave something
}

// muffled is a connection that does not read while its device is muted.
type muffled struct {
	net.Conn
	d    *device
	done chan struct{}
	once sync.Once
}

func (m *muffled) Read(p []byte) (int, error) {
	if m.d.muted.Load() {
		<-m.done
	}
	n, err := m.Conn.Read(p)
	m.d.reads.Add(1)
	return n, err
}

func (m *muffled) Close() error {
	m.once.Do(func() { close(m.done) })
	return m.Conn.Close()
}

func (st *stage) dial(enc schema.Encoding) *device {
	st.t.Helper()
	d := &device{t: st.t, enc: enc, frames: make(chan schema.ServerFrame, 4096), ended: make(chan struct{})}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := st.ln.dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		d.raw = &muffled{Conn: c, d: d, done: make(chan struct{})}
		return d.raw, nil
	}
	transport := &http.Transport{DialContext: dial}
	ws, _, err := websocket.Dial(context.Background(), "ws://gateway"+Path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{enc.Subprotocol()},
		OnPingReceived: func(context.Context, []byte) bool { return !d.silent.Load() },
	})
	require.NoError(st.t, err)
	ws.SetReadLimit(1 << 22)
	d.ws = ws
	st.t.Cleanup(func() { ws.CloseNow(); <-d.ended })
	go d.read()
	return d
}

func (d *device) read() {
	defer close(d.ended)
	for {
		_, b, err := d.ws.Read(context.Background())
		if err != nil {
			d.err = err
			return
		}
		f, err := d.enc.DecodeServer(b)
		if err != nil {
			d.err = err
			return
		}
		d.frames <- f
	}
}

func (d *device) sendBytes(b []byte) {
	kind := websocket.MessageText
	if d.enc == schema.Msgpack {
		kind = websocket.MessageBinary
	}
	_ = d.ws.Write(context.Background(), kind, b)
}

func (d *device) send(f schema.ClientFrame) {
	d.t.Helper()
	b, err := d.enc.Encode(f)
	require.NoError(d.t, err)
	d.sendBytes(b)
}

// next takes the gateway's next frame, which must be of the type given.
func (d *device) next(want schema.FrameType) schema.ServerFrame {
	d.t.Helper()
	select {
	case f := <-d.frames:
		require.Equal(d.t, want, f.Type, "%+v", f)
		return f
	default:
	}
	select {
	case f := <-d.frames:
		require.Equal(d.t, want, f.Type, "%+v", f)
		return f
	case <-d.ended:
		require.FailNow(d.t, "connection ended", "before %s: %v", want, d.err)
	case <-time.After(time.Hour):
		require.FailNow(d.t, "no frame", "%s", want)
	}
	panic("unreachable")
}

// code waits for the end of the connection and gives its close code, 1006 without one.
func (d *device) code() schema.CloseCode {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(time.Hour):
		require.FailNow(d.t, "connection does not end")
	}
	synctest.Wait()
	var closed websocket.CloseError
	if errors.As(d.err, &closed) {
		return schema.CloseCode(closed.Code)
	}
	return schema.CloseAbnormal
}

// hello logs a device in, and waits until it is.
func (st *stage) hello(uid schema.UID, id schema.DeviceID) *device {
	st.t.Helper()
	d := st.dial(schema.JSON)
	d.send(schema.ClientFrame{Type: schema.TypeHello, Token: string(uid), Device: id})
	d.session = d.next(schema.TypeConnected).Session
	return d
}

// sessionOf gives the gateway's side of a device.
func (st *stage) sessionOf(d *device) *session {
	st.t.Helper()
	_, num, ok := d.session.Parse()
	require.True(st.t, ok)
	return st.g.registry.find(num)
}

// push pushes one message to a device as it was last registered or synced, and gives the result.
func (st *stage) push(d *device, uid schema.UID, id string, ack bool) schema.PushResult {
	st.t.Helper()
	_, num, ok := d.session.Parse()
	require.True(st.t, ok)
	f := &schema.PushFrame{ID: id, From: "bob", Payload: []byte(`{"n":1}`), Ack: ack,
		Recipients: []schema.Recipient{{UID: uid, Session: num, Seq: st.seqOf(num)}}}
	return st.g.pushFrame(st.g.life.Load(), f, nil, nil)[0]
}

// metric gives the value of one of the gateway's metrics by its label's value; -1 without one.
func (st *stage) metric(name, label string) float64 {
	st.t.Helper()
	r := prometheus.NewRegistry()
	require.NoError(st.t, st.g.metrics.register(r))
	families, err := r.Gather()
	require.NoError(st.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rollcall_gateway_"+name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// pipeListener hands out net.Pipe connections that seem to come from loopback.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func slotOf(u schema.UID) schema.Slot { return subjects.SlotOf(u) }
