package mesh

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Socket is a WebSocket client that does nothing by itself but read, and answer pings unless told
// otherwise: it may send whatever bytes it likes, stop reading, and break rules.
type Socket struct {
	Link *bubble.Link // its network
	m    *Mesh
	conn net.Conn
	in   *bufio.Reader
	enc  schema.Encoding
	quit chan struct{} // closed by Forget

	reading sync.WaitGroup

	pongless atomic.Bool // pings are not answered

	mu      sync.Mutex
	uid     schema.UID
	paused  chan struct{} // closed when reading goes on; nil while it does
	frames  []Frame
	end     *End
	changed chan struct{} // closed and replaced when one of the two above changes
}

// Frame is one that came, and when. A ping or pong has its opcode and nothing else.
type Frame struct {
	At time.Time
	schema.ServerFrame
	op byte
}

// End is how a connection ended, as the client sees it: 1006 where no close frame came.
type End struct {
	At     time.Time
	Code   schema.CloseCode
	Reason string
}

// Dial connects a socket; no subprotocols offers none.
func (g *Gateway) Dial(subprotocols ...string) *Socket {
	g.m.T.Helper()
	s, status := g.TryDial(subprotocols...)
	require.Equal(g.m.T, http.StatusSwitchingProtocols, status)
	return s
}

// TryDial connects a socket, or gives the HTTP status with which the gateway refused it.
func (g *Gateway) TryDial(subprotocols ...string) (*Socket, int) {
	t := g.m.T
	t.Helper()
	s := &Socket{Link: bubble.NewClient(), m: g.m, quit: make(chan struct{}), changed: make(chan struct{})}
	var err error
	s.conn, err = g.dial(context.Background(), s.Link)
	require.NoError(t, err)
	g.m.keep(s)
	s.in = bufio.NewReaderSize(s.conn, 512)
	r, err := http.NewRequest(http.MethodGet, "ws://gateway/ws", nil)
	require.NoError(t, err)
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-WebSocket-Version": {"13"}, "Sec-WebSocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		"Sec-WebSocket-Protocol": subprotocols,
	}
	require.NoError(t, r.Write(s.conn))
	answer, err := http.ReadResponse(s.in, r)
	require.NoError(t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, answer.StatusCode
	}
	s.enc, _ = schema.ParseSubprotocol(answer.Header.Get("Sec-WebSocket-Protocol"))
	s.reading.Go(s.read)
	return s, answer.StatusCode
}

// Hello logs a socket in and does not wait: the uid is the token. The device and more are for
// change.
func (g *Gateway) Hello(uid schema.UID, change ...func(*schema.ClientFrame)) *Socket {
	g.m.T.Helper()
	s := g.Dial()
	s.Hello(uid, change...)
	return s
}

// Enter logs a socket in and waits until it is connected.
func (g *Gateway) Enter(uid schema.UID, change ...func(*schema.ClientFrame)) *Socket {
	g.m.T.Helper()
	s := g.Hello(uid, change...)
	s.Connected()
	return s
}

// Hello logs the socket in and does not wait.
func (s *Socket) Hello(uid schema.UID, change ...func(*schema.ClientFrame)) {
	s.m.T.Helper()
	f := schema.ClientFrame{Type: schema.TypeHello, Token: string(uid)}
	for _, c := range change {
		c(&f)
	}
	s.mu.Lock()
	s.uid = uid
	s.mu.Unlock()
	s.Send(f)
}

// As sets what a hello says of the device.
func As(device schema.DeviceID, flag schema.Flag, level schema.Level) func(*schema.ClientFrame) {
	return func(f *schema.ClientFrame) { f.Device, f.Flag, f.Level = device, flag, level.String() }
}

// Gen gives the hello's token a generation, from 0 to 9.
func Gen(n int) func(*schema.ClientFrame) {
	return func(f *schema.ClientFrame) { f.Token += fmt.Sprintf("/%d", n) }
}

// Resume names the client's previous session in the hello.
func Resume(id schema.SessionID) func(*schema.ClientFrame) {
	return func(f *schema.ClientFrame) { f.Resume = id }
}

// Send sends a frame in the socket's encoding.
func (s *Socket) Send(f schema.ClientFrame) {
	s.m.T.Helper()
	b, err := s.enc.Encode(f)
	require.NoError(s.m.T, err)
	op := opText
	if s.enc == schema.Msgpack {
		op = opBinary
	}
	s.Write(op|final, b)
}

// Write sends one WebSocket frame: an opcode with its bits, and a payload. A connection that has
// ended takes it too.
func (s *Socket) Write(head byte, payload []byte) { s.conn.Write(appendFrame(nil, head, payload)) }

// Text sends a text frame.
func (s *Socket) Text(text string) { s.Write(opText|final, []byte(text)) }

// Raw sends bytes as they are.
func (s *Socket) Raw(b []byte) { s.conn.Write(b) }

// Ping sends a ping of the WebSocket protocol.
func (s *Socket) Ping() { s.Write(opPing|final, nil) }

// Pong sends a pong that nobody has asked for.
func (s *Socket) Pong() { s.Write(opPong|final, nil) }

// Deaf has the socket answer no pings any more.
func (s *Socket) Deaf() { s.pongless.Store(true) }

// Pause stops reading after the frame that is being waited for, as a program that is stuck; what
// comes fills the network. Resume ends that.
func (s *Socket) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused == nil {
		s.paused = make(chan struct{})
	}
}

// Resume ends Pause.
func (s *Socket) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused != nil {
		close(s.paused)
		s.paused = nil
	}
}

// Forget ends a socket for good, without a goodbye, and lets go of all that it was. The end of the
// test does it to all that are left.
func (s *Socket) Forget() {
	s.m.drop(s)
	close(s.quit)
	s.conn.Close()
	s.Link.Reset()
	s.reading.Wait()
}

// Kill breaks the connection without a goodbye.
func (s *Socket) Kill() { s.Link.Reset() }

// Leave says goodbye and waits for the gateway's.
func (s *Socket) Leave() {
	s.Write(opClose|final, binary.BigEndian.AppendUint16(nil, uint16(schema.CloseBye)))
	s.Ended()
}
