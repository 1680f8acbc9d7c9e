package mesh_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// witness is a user with a device on each gateway who gets a message every 20 ms, whatever others
// do: each of them at once, none of them late, lost or twice.
type witness struct {
	t       *testing.T
	m       *mesh.Mesh
	devices []*mesh.Device
	stop    chan struct{}
	writing sync.WaitGroup
	sent    []time.Time
}

func newWitness(t *testing.T, m *mesh.Mesh) *witness {
	t.Helper()
	w := &witness{t: t, m: m, stop: make(chan struct{})}
	for i, g := range m.Gateways {
		w.devices = append(w.devices, g.Login("witness", schema.DeviceID(fmt.Sprintf("d%d", i))))
	}
	w.writing.Go(w.write)
	end := sync.OnceFunc(func() { close(w.stop); w.writing.Wait() })
	t.Cleanup(end)
	return w
}

func (w *witness) write() {
	for {
		w.sent = append(w.sent, time.Now())
		id := fmt.Sprint(len(w.sent))
		pushed, err := w.m.Push(context.Background(), delivery.Message{ID: id, Payload: []byte(`1`)}, []schema.UID{"witness"})
		if err != nil || len(pushed.Users[0].Routes) != len(w.devices) || !pushed.Users[0].Reached {
			w.t.Errorf("message %s: %+v, %v", id, pushed, err)
		}
		select {
		case <-w.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// undisturbed checks what the witness has had.
func (w *witness) undisturbed() {
	w.t.Helper()
	w.m.Pass(time.Second)
	w.m.Still()
	sent := len(w.sent)
	for _, d := range w.devices {
		require.Empty(w.t, codes(d))
		got := d.Messages()
		require.Len(w.t, got, sent)
		for i, m := range got {
			require.Equal(w.t, fmt.Sprint(i+1), m.ID)
			require.Equal(w.t, w.sent[i], m.At, "message %s came late", m.ID)
		}
	}
}

// deed is something that no client should do. It ends with a close code, or with the code of an
// error frame after which the socket lives on.
type deed struct {
	name     string
	protocol schema.Encoding
	stranger bool // done before the hello
	do       func(s *mesh.Socket)
	close    schema.CloseCode
	err      schema.FrameCode
}

const (
	asText   = 0x81 // the first byte of a whole frame
	asBinary = 0x82
)

func text(what string) func(*mesh.Socket) { return func(s *mesh.Socket) { s.Text(what) } }
func binaryOf(what ...byte) func(*mesh.Socket) {
	return func(s *mesh.Socket) { s.Write(asBinary, what) }
}

var deeds = []deed{
	{name: "no JSON", do: text(`{"type":`), close: schema.CloseBadFrame},
	{name: "no object", do: text(`["ping"]`), close: schema.CloseBadFrame},
	{name: "no type", do: text(`{"id":"1"}`), close: schema.CloseBadFrame},
	{name: "type of a wrong type", do: text(`{"type":7}`), close: schema.CloseBadFrame},
	{name: "nothing", do: text(``), close: schema.CloseBadFrame},
	{name: "garbage before hello", stranger: true, do: text(`}{`), close: schema.CloseBadFrame},
	{name: "ping before hello", stranger: true, do: text(`{"type":"ping"}`), close: schema.CloseBadFrame},
	{name: "hello twice", do: text(`{"type":"hello","token":"x"}`), close: schema.CloseBadFrame},
	{name: "hello never", stranger: true, do: func(*mesh.Socket) {}, close: schema.CloseHelloLate},
	{name: "hello for nobody", stranger: true, do: text(`{"type":"hello","token":""}`), close: schema.CloseBadToken},
	{name: "hello with a control character", stranger: true, do: text(`{"type":"hello","token":"a\u0001"}`), close: schema.CloseBadToken},
	{name: "deep JSON", do: text(`{"type":"send","id":"x","payload":` + strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000) + `}`), close: schema.CloseBadFrame},
	{name: "1 MiB", do: text(`{"type":"send","payload":"` + strings.Repeat("x", 1<<20) + `"}`), close: schema.CloseTooBig},
	{name: "binary on text", do: binaryOf(0x81, 0xa4, 't', 'y', 'p', 'e', 0xa4, 'p', 'i', 'n', 'g'), close: schema.CloseWrongKind},
	{name: "text on binary", protocol: schema.Msgpack, do: text(`{"type":"ping"}`), close: schema.CloseWrongKind},
	{name: "no UTF-8", do: func(s *mesh.Socket) { s.Write(asText, []byte("{\"type\":\"ping\",\"id\":\"\xff\"}")) }, close: schema.CloseBadUTF8},
	{name: "reserved bits", do: func(s *mesh.Socket) { s.Write(asText|0x40, []byte(`{"type":"ping"}`)) }, close: schema.CloseProtocol},
	{name: "unknown opcode", do: func(s *mesh.Socket) { s.Write(0x8b, nil) }, close: schema.CloseProtocol},
	{name: "unmasked", do: func(s *mesh.Socket) { s.Raw([]byte{asText, 2, '{', '}'}) }, close: schema.CloseProtocol},
	{name: "frames without end", do: framesWithoutEnd(0), close: schema.ClosePolicy},
	{name: "frames without end, cut off after one byte of a head", do: framesWithoutEnd(1), close: schema.ClosePolicy},
	{name: "frames without end, cut off after three", do: framesWithoutEnd(3), close: schema.ClosePolicy},
	{name: "message without end", do: func(s *mesh.Socket) { s.Write(0x01, []byte(`{"type":`)) }, close: schema.CloseHeartbeat},
	{name: "flood of pings", do: func(s *mesh.Socket) {
		for range 3000 {
			s.Ping()
		}
	}, close: schema.CloseRate},

	{name: "msgpack of 4 Gi elements", protocol: schema.Msgpack, do: binaryOf(0xdd, 0xff, 0xff, 0xff, 0xff), close: schema.CloseBadFrame},
	{name: "msgpack of 4 Gi pairs", protocol: schema.Msgpack, do: binaryOf(0xdf, 0xff, 0xff, 0xff, 0xff), close: schema.CloseBadFrame},
	{name: "msgpack of 4 GiB text", protocol: schema.Msgpack, do: binaryOf(0x81, 0xa4, 't', 'y', 'p', 'e', 0xdb, 0xff, 0xff, 0xff, 0xff), close: schema.CloseBadFrame},
	{name: "msgpack of 4 GiB bin", protocol: schema.Msgpack, do: binaryOf(0xc6, 0xff, 0xff, 0xff, 0xff), close: schema.CloseBadFrame},
	{name: "msgpack without end", protocol: schema.Msgpack, do: binaryOf(0x81, 0xa4, 't', 'y'), close: schema.CloseBadFrame},
	{name: "msgpack with more behind", protocol: schema.Msgpack, do: binaryOf(0x81, 0xa4, 't', 'y', 'p', 'e', 0xa4, 'p', 'i', 'n', 'g', 0xc0), close: schema.CloseBadFrame},
	{name: "deep msgpack", protocol: schema.Msgpack, do: binaryOf(bytes.Repeat([]byte{0x91}, 60_000)...), close: schema.CloseBadFrame},
	{name: "deep msgpack payload", protocol: schema.Msgpack, do: binaryOf(append([]byte("\x82\xa4type\xa4send\xa7payload"), append(bytes.Repeat([]byte{0x91}, 60_000), 0xc0)...)...), close: schema.CloseBadFrame},

	{name: "unknown type", do: text(`{"type":"dance","id":"x"}`), err: schema.FrameUnknownType},
	{name: "wrong type of a field", do: text(`{"type":"watch","id":"x","uids":7}`), err: schema.FrameBadMessage},
	{name: "send without a payload", do: text(`{"type":"send","id":"x"}`), err: schema.FrameBadMessage},
	{name: "watch of nobody", do: text(`{"type":"watch","id":"x","uids":[""]}`), err: schema.FrameBadMessage},
	{name: "watch of too many", do: text(`{"type":"watch","id":"x","uids":[` + strings.Repeat(`"u",`, 2) + manyUIDs(1001) + `]}`), err: schema.FrameWatchLimit},
	{name: "refresh as somebody else", do: text(`{"type":"refresh","id":"x","token":"t"}`), err: schema.FrameNotAllowed},
	{name: "send to no backend", do: text(`{"type":"send","id":"x","payload":{}}`), err: schema.FrameNoBackend},
	{name: "hello with a bad flag", stranger: true, do: text(`{"type":"hello","id":"x","token":"a","flag":"No Flag"}`), err: schema.FrameBadMessage},
	{name: "hello with a bad level", stranger: true, do: text(`{"type":"hello","id":"x","token":"a","level":"king"}`), err: schema.FrameBadMessage},
}

// framesWithoutEnd is a message of empty frames; by shift differs where in a frame the gateway's
// patience ends.
func framesWithoutEnd(shift int) func(*mesh.Socket) {
	return func(s *mesh.Socket) {
		s.Write(0x01, []byte(`{"type":`+strings.Repeat(" ", shift)))
		s.Raw(bytes.Repeat([]byte{0x00, 0x80, 0, 0, 0, 0}, 20_000))
	}
}

func manyUIDs(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%q", fmt.Sprintf("u%d", i))
	}
	return strings.Join(list, ",")
}

// TestGarbageFromClients does to a gateway what no client should. Each deed has its documented end,
// and costs nobody else anything.
func TestGarbageFromClients(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		w := newWitness(t, m)
		for i, d := range deeds {
			uid := schema.UID(fmt.Sprintf("villain-%d", i))
			s := m.Gateways[i%2].Dial(d.protocol.Subprotocol())
			if !d.stranger {
				s.Hello(uid)
				s.Connected()
			}
			at := time.Now()
			d.do(s)
			d.check(t, s, at)
			m.Truth(uid)
		}
		_, status := m.Gateways[0].TryDial("rollcall.v9.xml")
		require.Equal(t, http.StatusBadRequest, status)
		w.undisturbed()
	})
}

func (d deed) check(t *testing.T, s *mesh.Socket, at time.Time) {
	t.Helper()
	if d.err != "" {
		f := s.Answer("x")
		require.Equal(t, schema.TypeError, f.Type, d.name)
		require.Equal(t, d.err, f.Code, d.name)
		require.Zero(t, f.Close, d.name)
		require.True(t, s.Open(), d.name)
		return
	}
	end := s.Ended()
	require.Equal(t, d.close, end.Code, "%s: %s", d.name, end.Reason)
	require.Equal(t, d.takes(), end.At.Sub(at), d.name)
}

// takes is when the connection ends: at once, but for what is waited for.
func (d deed) takes() time.Duration {
	switch d.name {
	case "hello never", "message without end":
		return 10 * time.Second
	}
	return 0
}
