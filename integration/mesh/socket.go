package mesh

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
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

func (s *Socket) read() {
	for {
		s.await()
		op, payload, err := readFrame(s.in)
		if err != nil {
			s.note(Frame{}, &End{Code: schema.CloseAbnormal, Reason: err.Error()})
			return
		}
		switch op {
		case opClose:
			s.conn.Write(appendFrame(nil, opClose|final, payload))
			s.note(Frame{}, closing(payload))
			return
		case opPing:
			if !s.pongless.Load() {
				s.Write(opPong|final, payload)
			}
			s.note(Frame{op: op}, nil)
		case opPong:
			s.note(Frame{op: op}, nil)
		default:
			f, err := s.enc.DecodeServer(payload)
			if err != nil {
				f.Message = fmt.Sprintf("unreadable: %v", err)
			}
			s.note(Frame{ServerFrame: f, op: op}, nil)
		}
	}
}

// await waits while the socket is paused.
func (s *Socket) await() {
	s.mu.Lock()
	paused := s.paused
	s.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-s.quit:
		}
	}
}

func closing(payload []byte) *End {
	if len(payload) < 2 {
		return &End{Code: schema.CloseNoStatus}
	}
	return &End{Code: schema.CloseCode(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
}

func (s *Socket) note(f Frame, end *End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end != nil {
		end.At = time.Now()
		s.end = end
	} else {
		f.At = time.Now()
		s.frames = append(s.frames, f)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Frames gives what came, in order.
func (s *Socket) Frames() []Frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// errNotInTime is returned by wait.
var errNotInTime = errors.New("not in time")

// wait waits until cond, called with the lock held, gives true.
func (s *Socket) wait(d time.Duration, cond func() bool) error {
	late := time.After(d)
	for {
		s.mu.Lock()
		ok, changed := cond(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-late:
			return errNotInTime
		}
	}
}

// longest is how long anything is waited for that a client must see in the end.
const longest = 2 * time.Minute

// Next waits for the first frame of a type and id that is not before the n-th received.
func (s *Socket) Next(n int, kind schema.FrameType, id string) (found Frame) {
	s.m.T.Helper()
	err := s.wait(longest, func() bool {
		for _, f := range s.frames[min(n, len(s.frames)):] {
			if f.Type == kind && f.ID == id {
				found = f
				return true
			}
		}
		return s.end != nil
	})
	require.NoError(s.m.T, err, "%s of %s", kind, s.uid)
	require.Equal(s.m.T, kind, found.Type, "%s: connection ended with %+v", s.uid, s.end)
	return found
}

// Answer waits for the frame that answers the client's with this id.
func (s *Socket) Answer(id string) (found Frame) {
	s.m.T.Helper()
	err := s.wait(longest, func() bool {
		for _, f := range s.frames {
			if f.ID == id {
				found = f
				return true
			}
		}
		return false
	})
	require.NoError(s.m.T, err, "answer to %s of %s", id, s.uid)
	return found
}

// Connected waits for the login.
func (s *Socket) Connected() Frame {
	s.m.T.Helper()
	return s.Next(0, schema.TypeConnected, "")
}

// Ended waits for the connection's end.
func (s *Socket) Ended() End {
	s.m.T.Helper()
	require.NoError(s.m.T, s.wait(longest, func() bool { return s.end != nil }), "end of %s", s.uid)
	return *s.end
}

// Open reports whether the connection has not ended.
func (s *Socket) Open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end == nil
}

// User is who the socket said hello as.
func (s *Socket) User() schema.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uid
}

// Current gives the session that the socket holds open.
func (s *Socket) Current() (id schema.SessionID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.frames {
		if f.Type == schema.TypeConnected {
			id = f.Session // the latest counts
		}
	}
	return id, id != "" && s.end == nil
}

// Got counts how often a message came.
func (s *Socket) Got(id string) (n int) {
	for _, f := range s.Frames() {
		if f.Type == schema.TypeRecv && f.ID == id {
			n++
		}
	}
	return n
}

// Raw sends bytes as they are.
func (s *Socket) Raw(b []byte) { s.conn.Write(b) }
