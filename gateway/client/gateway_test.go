package client_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a gateway played by the test, reached over pipes, in a bubble.
type world struct {
	t     *testing.T
	ln    *pipeListener
	http  *http.Client
	conns chan *conn // upgraded connections, in the order of their handshakes
	// refuse answers the handshake instead of an upgrade, when set.
	refuse http.HandlerFunc
	pongs  bool // answer pings
}

// bubble runs test with a world of its own; whatever test starts must end inside.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ln: newPipeListener(), conns: make(chan *conn, 16), pongs: true}
		transport := &http.Transport{DialContext: w.ln.dial}
		w.http = &http.Client{Transport: transport}
		server := &http.Server{Handler: w}
		var wg sync.WaitGroup
		wg.Go(func() { server.Serve(w.ln) })
		test(t, w)
		server.Close()
		transport.CloseIdleConnections()
		wg.Wait()
	})
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if w.refuse != nil {
		w.refuse(rw, r)
		return
	}
	ws, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: schema.Subprotocols()})
	if err != nil {
		return
	}
	ws.SetReadLimit(65536) // as connected says
	enc, _ := schema.ParseSubprotocol(ws.Subprotocol())
	c := &conn{w: w, ws: ws, enc: enc, frames: make(chan schema.ClientFrame, 1024), ended: make(chan struct{}), at: time.Now()}
	w.conns <- c
	c.read(r.Context())
}

// conn is the gateway's end of one connection.
type conn struct {
	w      *world
	ws     *websocket.Conn
	enc    schema.Encoding
	at     time.Time // of the handshake
	frames chan schema.ClientFrame
	err    error // why reading ended, after ended
	ended  chan struct{}
}

func (c *conn) read(ctx context.Context) {
	defer close(c.ended)
	for {
		_, b, err := c.ws.Read(ctx)
		if err != nil {
			c.err = err
			return
		}
		f, err := c.enc.DecodeClient(b)
		require.NoError(c.w.t, err)
		if f.Type == schema.TypePing && c.w.pongs {
			c.send(schema.ServerFrame{Type: schema.TypePong})
			continue
		}
		c.frames <- f
	}
}

// next takes the client's next frame, which must be of the type given.
func (c *conn) next(want schema.FrameType) schema.ClientFrame {
	c.w.t.Helper()
	select {
	case f := <-c.frames:
		require.Equal(c.w.t, want, f.Type)
		return f
	case <-c.ended:
		require.FailNow(c.w.t, "connection ended", "before %s: %v", want, c.err)
	case <-time.After(time.Hour):
		require.FailNow(c.w.t, "no frame", "%s", want)
	}
	panic("unreachable")
}

func (c *conn) send(f schema.ServerFrame) {
	c.w.t.Helper()
	b, err := c.enc.Encode(f)
	require.NoError(c.w.t, err)
	c.sendBytes(b)
}

func (c *conn) sendBytes(b []byte) {
	kind := websocket.MessageText
	if c.enc == schema.Msgpack {
		kind = websocket.MessageBinary
	}
	_ = c.ws.Write(context.Background(), kind, b)
}

// accept takes the next connection and its hello, and answers connected.
func (w *world) accept(session schema.SessionID) (*conn, schema.ClientFrame) {
	w.t.Helper()
	c := w.dialled()
	hello := c.next(schema.TypeHello)
	c.send(connected(session))
	return c, hello
}

func (w *world) dialled() *conn {
	w.t.Helper()
	select {
	case c := <-w.conns:
		return c
	case <-time.After(time.Hour):
		require.FailNow(w.t, "nobody dials")
		return nil
	}
}

func connected(session schema.SessionID) schema.ServerFrame {
	return schema.ServerFrame{Type: schema.TypeConnected, Session: session, Node: "gw-1", Boot: "AAAAAAAAAAAAAAAAAAAAAA",
		UID: "alice", Device: "phone-1", Flag: "app", Level: "master", HeartbeatMS: 30000, ExpiresAt: 1790000000, MaxBytes: 65536}
}

// running is a client under test.
type running struct {
	*client.Client
	stop     context.CancelFunc
	ended    chan struct{}
	err      error // after ended
	messages chan client.Message
	presence chan []schema.WatchedUser
	states   chan client.State
	tokens   int // how often a token was asked for
}

// start runs a client of w in its bubble.
func (w *world) start(change func(*client.Config)) *running {
	w.t.Helper()
	r := &running{
		ended:    make(chan struct{}),
		messages: make(chan client.Message, 1024),
		presence: make(chan []schema.WatchedUser, 1024),
		states:   make(chan client.State, 1024),
	}
	cfg := client.Config{
		URL: "ws://gateway/ws", HTTPClient: w.http, Device: "phone-1", Flag: "app", Level: schema.Master,
		Token:      func(context.Context) (string, error) { r.tokens++; return "alice", nil },
		OnMessage:  func(m client.Message) { r.messages <- m },
		OnPresence: func(u []schema.WatchedUser) { r.presence <- u },
		OnState:    func(s client.State) { r.states <- s },
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	require.NoError(w.t, err)
	r.Client = c
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		defer close(r.ended)
		r.err = c.Run(ctx)
	}()
	return r
}

// end stops the client and checks that it left without an error.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	<-r.ended
	require.NoError(t, r.err)
}

// pipeListener hands out net.Pipe connections.
type pipeListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.accepted <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "gateway" }
