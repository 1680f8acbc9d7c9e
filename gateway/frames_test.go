package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// raw is one masked frame as a client puts it on the wire; the mask is zero.
func raw(fin bool, opcode byte, payload []byte) []byte {
	head := opcode
	if fin {
		head |= 0x80
	}
	b := []byte{head}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), payload...)
}

// rule is one that a client breaks, and what it gets for it.
type rule struct {
	enc    schema.Encoding
	before bool // break it instead of the hello
	send   func(d *device)
	want   schema.CloseCode
	hint   schema.FrameCode
	says   string
}

var (
	secondHello = []byte(`{"type":"hello","token":"alice","device":"d2"}`)
	bomb        = []byte{0xdd, 0xff, 0xff, 0xff, 0xff} // an array of four thousand million

	brokenRules = map[string]rule{
		"hello twice":          {send: func(d *device) { d.sendBytes(secondHello) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"before hello":         {before: true, send: func(d *device) { d.sendBytes([]byte(`{"type":"ping"}`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"unknown before hello": {before: true, send: func(d *device) { d.sendBytes([]byte(`{"type":"x"}`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"not JSON":             {send: func(d *device) { d.sendBytes([]byte(`{"type":`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"not JSON, no hello":   {before: true, send: func(d *device) { d.sendBytes([]byte(`hello`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"empty":                {send: func(d *device) { d.sendBytes(nil) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"no object":            {send: func(d *device) { d.sendBytes([]byte(`[1]`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"no type":              {send: func(d *device) { d.sendBytes([]byte(`{"id":"x"}`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"type is a number":     {send: func(d *device) { d.sendBytes([]byte(`{"type":7}`)) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"deep": {send: func(d *device) {
			d.sendBytes([]byte(`{"type":"send","payload":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`))
		}, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"msgpack bomb": {enc: schema.Msgpack, send: func(d *device) { d.sendBytes(bomb) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"msgpack NaN": {enc: schema.Msgpack, send: func(d *device) {
			d.sendBytes([]byte("\x82\xa4type\xa4send\xa7payload\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"))
		}, want: schema.CloseBadFrame, hint: schema.FrameBadMessage, says: "NaN is no JSON number"},
		"bomb instead of hello": {enc: schema.Msgpack, before: true, send: func(d *device) { d.sendBytes(bomb) }, want: schema.CloseBadFrame, hint: schema.FrameBadMessage},
		"binary on text":        {send: func(d *device) { d.ws.Write(d.t.Context(), websocket.MessageBinary, secondHello) }, want: schema.CloseWrongKind},
		"binary, no hello":      {before: true, send: func(d *device) { d.ws.Write(d.t.Context(), websocket.MessageBinary, secondHello) }, want: schema.CloseWrongKind},
		"text on binary":        {enc: schema.Msgpack, send: func(d *device) { d.ws.Write(d.t.Context(), websocket.MessageText, secondHello) }, want: schema.CloseWrongKind},
		"not UTF-8":             {send: func(d *device) { d.sendBytes([]byte("{\"type\":\"ping\",\"id\":\"\xff\"}")) }, want: schema.CloseBadUTF8},
		"1 MiB":                 {send: func(d *device) { d.sendBytes(bytes.Repeat([]byte(" "), 1<<20)) }, want: schema.CloseTooBig},
		"1 MiB, no hello":       {before: true, send: func(d *device) { d.sendBytes(bytes.Repeat([]byte(" "), 1<<20)) }, want: schema.CloseTooBig},
		"1 MiB in pieces": {send: func(d *device) {
			d.raw.Write(raw(false, 1, []byte("{")))
			for range 1 << 10 {
				if _, err := d.raw.Write(raw(false, 0, bytes.Repeat([]byte(" "), 1<<10))); err != nil {
					return
				}
			}
		}, want: schema.CloseTooBig},
		"frames without end": {send: func(d *device) {
			d.raw.Write(raw(false, 1, []byte("{")))
			for range 300_000 {
				if _, err := d.raw.Write(raw(false, 0, nil)); err != nil {
					return
				}
			}
		}, want: schema.ClosePolicy},
		"message without end": {send: func(d *device) { d.raw.Write(raw(false, 1, []byte(`{"type":"ping"`))) }, want: schema.CloseHeartbeat},
		"half a frame":        {send: func(d *device) { d.raw.Write(raw(true, 1, []byte(`{"type":"ping"}`))[:9]) }, want: schema.CloseHeartbeat},
		"half a head":         {send: func(d *device) { d.raw.Write([]byte{0x81}) }, want: schema.CloseHeartbeat},
		"not masked":          {send: func(d *device) { d.raw.Write([]byte{0x81, 2, '{', '}'}) }, want: schema.CloseProtocol},
		"unknown opcode":      {send: func(d *device) { d.raw.Write(raw(true, 5, nil)) }, want: schema.CloseProtocol},
		"lone continuation":   {send: func(d *device) { d.raw.Write(raw(true, 0, nil)) }, want: schema.CloseProtocol},
		"pings without end": {send: func(d *device) {
			for range 100_000 {
				if _, err := d.raw.Write(raw(true, 9, []byte("x"))); err != nil {
					return
				}
			}
		}, want: schema.CloseRate},
		"frames above the rate": {send: func(d *device) {
			for range 100_000 {
				if _, err := d.raw.Write(raw(true, 1, []byte(`{"type":"ping"}`))); err != nil {
					return
				}
			}
		}, want: schema.CloseRate},
	}
)

// TestBrokenRules has a client break each rule, before its hello and after it. It ends that client
// with the code documented, and nobody else feels it.
func TestBrokenRules(t *testing.T) {
	for name, rule := range brokenRules {
		t.Run(name, func(t *testing.T) {
			perform(t, func(c *Config) { c.Limits.QueueFrames = 10_000 }, func(t *testing.T, st *stage) {
				other := st.hello("bob", "d1")
				d := st.dial(rule.enc)
				if !rule.before {
					d.send(schema.ClientFrame{Type: schema.TypeHello, Token: "alice", Device: "d1"})
					d.next(schema.TypeConnected)
				}
				go rule.send(d)
				code := d.code()
				require.Equal(t, rule.want, code, "%s: %v", code, d.err)
				require.Equal(t, rule.hint != "", len(d.frames) > 0 && rule.want == schema.CloseBadFrame)
				if rule.hint != "" {
					f := d.next(schema.TypeError)
					require.Equal(t, rule.hint, f.Code)
					require.Equal(t, rule.want, f.Close)
					require.Contains(t, f.Message, rule.says)
				}
				synctest.Wait()
				require.Equal(t, 1, st.g.registry.len(), "only the other is left")
				other.send(schema.ClientFrame{Type: schema.TypePing, ID: "p"})
				require.Equal(t, "p", other.next(schema.TypePong).ID)
			})
		})
	}
}

// TestAnswers checks what leaves the socket open.
func TestAnswers(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.dial(schema.JSON)
		fails := func(code schema.FrameCode, id, frame string) {
			t.Helper()
			d.sendBytes([]byte(frame))
			f := d.next(schema.TypeError)
			require.Equal(t, code, f.Code, f.Message)
			require.Equal(t, id, f.ID)
			require.Zero(t, f.Close)
		}
		fails(schema.FrameBadMessage, "h", `{"type":"hello","id":"h","token":"alice","device":5}`)
		fails(schema.FrameBadMessage, "h", `{"type":"hello","id":"h","token":"alice","device":"`+strings.Repeat("d", 129)+`"}`)
		fails(schema.FrameBadMessage, "h", `{"type":"hello","id":"h","token":"alice","flag":"APP"}`)
		fails(schema.FrameBadMessage, "h", `{"type":"hello","id":"h","token":"alice","level":"boss"}`)
		d.sendBytes([]byte(`{"type":"hello","token":"alice","resume":"not ours","more":{"unknown":1}}`))
		require.Equal(t, schema.UID("alice"), d.next(schema.TypeConnected).UID)

		fails(schema.FrameUnknownType, "1", `{"type":"dance","id":"1"}`)
		fails(schema.FrameBadMessage, "2", `{"type":"ack","id":"2","acks":"x"}`)
		fails(schema.FrameBadMessage, "3", `{"type":"refresh","id":"3"}`)
		fails(schema.FrameNotAllowed, "3", `{"type":"refresh","id":"3","token":"bob"}`)
		fails(schema.FrameBadMessage, "4", `{"type":"send","id":"4"}`)
		fails(schema.FrameBadMessage, "5", `{"type":"watch","id":"5","uids":[]}`)
		fails(schema.FrameBadMessage, "6", `{"type":"watch","id":"6","uids":[""]}`)
		d.sendBytes([]byte(`{"type":"ack","acks":[1,2,3]}`))
		d.sendBytes([]byte(`{"type":"ack","id":"a","acks":[1]}`))
		require.Equal(t, "a", d.next(schema.TypeOK).ID)
		d.sendBytes([]byte(`{"type":"ping"}`))
		d.next(schema.TypePong)
		d.sendBytes([]byte(`{"type":"unwatch","id":"u","uids":["bob"]}`))
		require.Equal(t, "u", d.next(schema.TypeOK).ID)
	})
}

func TestRateLimited(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 10, 5 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		for range 4 {
			d.send(schema.ClientFrame{Type: schema.TypePing})
			d.next(schema.TypePong)
		}
		d.send(schema.ClientFrame{Type: schema.TypePing, ID: "x"})
		f := d.next(schema.TypeError)
		require.Equal(t, schema.FrameRateLimited, f.Code)
		require.Equal(t, "x", f.ID)
		require.True(t, f.Retryable)
		require.Equal(t, int64(100), f.RetryAfterMS)
		time.Sleep(100 * time.Millisecond)
		d.send(schema.ClientFrame{Type: schema.TypePing})
		d.next(schema.TypePong)
	})
}

func TestByes(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		require.NoError(t, d.ws.Close(websocket.StatusNormalClosure, "bye"))
		synctest.Wait()
		require.Zero(t, st.g.registry.len())
		d = st.hello("alice", "d1")
		d.raw.Close()
		synctest.Wait()
		require.Zero(t, st.g.registry.len())
		st.with(func(m *fakeMesh) {
			require.Len(t, m.leaves, 2)
			require.Equal(t, schema.ReasonLeave, m.leaves[1].Reason)
		})
	})
}

func TestAckNumbers(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		require.Equal(t, schema.PushWritten, st.push(d, "alice", "m1", true))
		require.Equal(t, schema.PushWritten, st.push(d, "alice", "m2", false))
		require.Equal(t, schema.PushWritten, st.push(d, "alice", "m3", true))
		require.Equal(t, uint64(1), d.next(schema.TypeRecv).Ack)
		require.Zero(t, d.next(schema.TypeRecv).Ack)
		require.Equal(t, uint64(2), d.next(schema.TypeRecv).Ack)
		d.send(schema.ClientFrame{Type: schema.TypeAck, ID: "a", Acks: []uint64{2, 99}})
		d.next(schema.TypeOK)
		s := st.sessionOf(d)
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Len(t, s.acks.open, 1)
	})
}

func TestPayloads(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		_, num, _ := d.session.Parse()
		for _, bad := range []string{"", "{", "\"\xff\"", strings.Repeat("[", 40) + strings.Repeat("]", 40)} {
			f := &schema.PushFrame{Payload: []byte(bad), Recipients: []schema.Recipient{{UID: "alice", Session: num, Seq: 1}}}
			require.Equal(t, []schema.PushResult{schema.PushUnknown}, st.g.pushFrame(st.g.life.Load(), f, nil, nil), bad)
		}
		var pretty json.RawMessage = []byte("{\n \"a\": 1 }")
		f := &schema.PushFrame{Payload: pretty, Recipients: []schema.Recipient{{UID: "alice", Session: num, Seq: 1}}}
		require.Equal(t, []schema.PushResult{schema.PushWritten}, st.g.pushFrame(st.g.life.Load(), f, nil, nil))
		require.JSONEq(t, string(pretty), string(d.next(schema.TypeRecv).Payload))
	})
}
