package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
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
		synctest.Wait()
		test(t, st)
		st.stop()
		<-st.done
		transport.CloseIdleConnections()
		synctest.Wait()
	})
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
}

func (st *stage) dial(enc schema.Encoding) *device {
	st.t.Helper()
	d := &device{t: st.t, enc: enc, frames: make(chan schema.ServerFrame, 4096), ended: make(chan struct{})}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := st.ln.dial(ctx, network, addr)
		d.raw = c
		return c, err
	}
	transport := &http.Transport{DialContext: dial}
	ws, _, err := websocket.Dial(context.Background(), "ws://gateway"+Path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{enc.Subprotocol()},
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
	return st.g.pushFrame(st.g.life.Load(), f, nil)[0]
}

// fakeHolder gives lives.
type fakeHolder struct {
	mu   sync.Mutex
	cut  context.CancelCauseFunc
	next chan struct{} // each value allows another life
}

func newFakeHolder() *fakeHolder {
	h := &fakeHolder{next: make(chan struct{}, 16)}
	h.next <- struct{}{}
	return h
}

func (h *fakeHolder) Trusted() bool { return true }

func (h *fakeHolder) Run(ctx context.Context, work func(context.Context, schema.Process) error) error {
	for {
		select {
		case <-h.next:
		case <-ctx.Done():
			return nil
		}
		life, end := context.WithCancelCause(ctx)
		h.mu.Lock()
		h.cut = end
		h.mu.Unlock()
		err := work(life, schema.Process{Node: "gw-1", Boot: schema.NewBoot()})
		cause := context.Cause(life)
		end(nil)
		if err != nil || errors.Is(cause, lease.ErrTakenOver) {
			return errors.Join(err, cause)
		}
	}
}

// end ends the present life.
func (h *fakeHolder) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut(cause)
}

// begin allows another life.
func (h *fakeHolder) begin() { h.next <- struct{}{} }

// fakeView says that one authority owns every slot.
type fakeView struct {
	mu      sync.Mutex
	config  schema.Config
	owner   schema.Target // for every slot
	owned   bool
	highest map[schema.Slot]schema.Revision
	hear    func(lease.Change)
}

func newFakeView() *fakeView {
	return &fakeView{
		config: schema.DefaultConfig(), owned: true, highest: make(map[schema.Slot]schema.Revision),
		owner: schema.Target{Fence: 100, Authority: schema.Process{Node: "a-1", Boot: schema.NewBoot()}},
	}
}

func (v *fakeView) Target(n schema.Slot) (schema.Target, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.owner
	t.Slot = n
	return t, v.owned
}

func (v *fakeView) Highest(n schema.Slot) schema.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.highest[n], v.owner.Fence)
}

func (v *fakeView) Saw(n schema.Slot, fence schema.Revision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.highest[n] = max(v.highest[n], fence)
}

func (v *fakeView) Config() schema.Config     { return v.config }
func (v *fakeView) Revision() schema.Revision { return 77 }

func (v *fakeView) subscribe(f func(lease.Change)) func() {
	v.hear = f
	return func() {}
}

// move gives every slot to another authority, at the next fence, and tells the gateway.
func (v *fakeView) move() {
	v.mu.Lock()
	v.owner.Fence++
	v.owner.Authority.Boot = schema.NewBoot()
	v.mu.Unlock()
	for n := range schema.Slot(schema.Slots) {
		t, _ := v.Target(n)
		v.hear(lease.Change{Slot: &lease.SlotChange{Target: t, Owned: true}})
	}
}

// fakeMesh is an authority that says yes, but for what a test makes of it.
type fakeMesh struct {
	view *fakeView

	mu     sync.Mutex
	n      uint64 // of orders
	routes map[schema.SessionNum]schema.Route
	leaves []schema.Leave
	synced []schema.Route
	lasts  int // sync chunks marked last
	touch  int // sessions touched

	onRegister   func(schema.Target, schema.Login) (schema.LoginResult, error)
	onCommit     func(schema.Target, schema.CommitEntry) (schema.LoginResult, error)
	onUnregister func(schema.Target, []schema.Leave) ([]schema.Code, error)
	onTouch      func([]schema.Touched) ([]schema.TouchException, error)
	onSync       func(schema.Target, []schema.Route) (*schema.SyncAnswer, error)
	onKick       func(schema.Process, []schema.KickEntry) ([]schema.Code, error)
	onLookup     func([]schema.UID) []client.Found
}

func newFakeMesh() *fakeMesh {
	return &fakeMesh{routes: make(map[schema.SessionNum]schema.Route)}
}

// with changes the mesh's behaviour, or reads its notes.
func (m *fakeMesh) with(f func(m *fakeMesh)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

func (m *fakeMesh) seqOf(num schema.SessionNum) schema.OwnerSeq {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.routes[num].Seq
}

func (m *fakeMesh) Target(_ context.Context, n schema.Slot) (schema.Target, error) {
	if t, ok := m.view.Target(n); ok {
		return t, nil
	}
	return schema.Target{}, client.ErrUnowned
}

func (m *fakeMesh) yes(r schema.Route, t schema.Target) schema.LoginResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	r.Order = schema.Order{Fence: t.Fence, N: m.n}
	m.routes[r.Session] = r
	return schema.LoginResult{Order: r.Order}
}

func (m *fakeMesh) Register(_ context.Context, t schema.Target, l schema.Login) (schema.LoginResult, error) {
	m.mu.Lock()
	on := m.onRegister
	m.mu.Unlock()
	if on != nil {
		res, err := on(t, l)
		if err != nil || res.Code != schema.CodeOK {
			return res, err
		}
	}
	return m.yes(l.Route, t), nil
}

func (m *fakeMesh) Commit(_ context.Context, t schema.Target, from schema.Process, e schema.CommitEntry) (schema.LoginResult, error) {
	m.mu.Lock()
	on := m.onCommit
	m.mu.Unlock()
	if on != nil {
		res, err := on(t, e)
		if err != nil || res.Code != schema.CodeOK {
			return res, err
		}
	}
	return m.yes(schema.Route{UID: e.UID, Session: e.Session, Owner: from}, t), nil
}

func (m *fakeMesh) Unregister(_ context.Context, t schema.Target, _ schema.Process, e []schema.Leave) ([]schema.Code, error) {
	m.mu.Lock()
	on := m.onUnregister
	m.mu.Unlock()
	if on != nil {
		if codes, err := on(t, e); codes != nil || err != nil {
			return codes, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaves = append(m.leaves, e...)
	for _, one := range e {
		delete(m.routes, one.Session)
	}
	return make([]schema.Code, len(e)), nil
}

func (m *fakeMesh) Touch(_ context.Context, _ schema.Target, _ schema.Process, s []schema.Touched) ([]schema.TouchException, error) {
	m.mu.Lock()
	on := m.onTouch
	m.touch += len(s)
	m.mu.Unlock()
	if on != nil {
		return on(s)
	}
	return nil, nil
}

func (m *fakeMesh) Sync(_ context.Context, t schema.Target, _ schema.Process, last bool, routes []schema.Route) (*schema.SyncAnswer, error) {
	m.mu.Lock()
	on := m.onSync
	m.mu.Unlock()
	if on != nil {
		if answer, err := on(t, routes); answer != nil || err != nil {
			return answer, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = append(m.synced, routes...)
	for _, r := range routes {
		m.routes[r.Session] = r
	}
	if last {
		m.lasts++
	}
	return &schema.SyncAnswer{Verdicts: make([]schema.SyncVerdict, len(routes))}, nil
}

func (m *fakeMesh) Kick(_ context.Context, p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
	m.mu.Lock()
	on := m.onKick
	m.mu.Unlock()
	if on != nil {
		return on(p, e)
	}
	return make([]schema.Code, len(e)), nil
}

func (m *fakeMesh) Lookup(_ context.Context, uids []schema.UID) []client.Found {
	m.mu.Lock()
	on := m.onLookup
	m.mu.Unlock()
	if on != nil {
		return on(uids)
	}
	found := make([]client.Found, len(uids))
	for i, u := range uids {
		found[i] = client.Found{UID: u, State: schema.Offline, Stamp: schema.Stamp{Fence: 100}}
	}
	return found
}

// fakeBus is a NATS connection on which only what a test wants happens.
type fakeBus struct {
	mu       sync.Mutex
	subs     map[string]chan *nats.Msg
	onSend   func(subject string, data []byte) (*nats.Msg, error)
	requests []string
}

func (b *fakeBus) ChanSubscribe(subject string, ch chan *nats.Msg) (*nats.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[string]chan *nats.Msg)
	}
	b.subs[subject] = ch
	return nil, nil
}

// publish brings a message to who has subscribed.
func (b *fakeBus) publish(subject string, data []byte) {
	b.mu.Lock()
	ch := b.subs[subject]
	b.mu.Unlock()
	if ch != nil {
		ch <- &nats.Msg{Subject: subject, Data: data}
	}
}

func (b *fakeBus) RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	b.mu.Lock()
	on := b.onSend
	b.requests = append(b.requests, subject)
	b.mu.Unlock()
	if on == nil {
		return nil, nats.ErrNoResponders
	}
	m, err := on(subject, data)
	if m == nil && err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m, err
}

func (b *fakeBus) FlushWithContext(context.Context) error        { return nil }
func (b *fakeBus) StatusChanged(...nats.Status) chan nats.Status { return make(chan nats.Status) }
func (b *fakeBus) RemoveStatusListener(chan nats.Status)         {}

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
