package schema_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestSubprotocols(t *testing.T) {
	for name, want := range map[string]schema.Encoding{"": schema.JSON, "rollcall.v1.json": schema.JSON, "rollcall.v1.msgpack": schema.Msgpack} {
		e, ok := schema.ParseSubprotocol(name)
		require.True(t, ok, name)
		require.Equal(t, want, e, name)
	}
	_, ok := schema.ParseSubprotocol("rollcall.v2.json")
	require.False(t, ok)
	require.Equal(t, []string{"rollcall.v1.json", "rollcall.v1.msgpack"}, schema.Subprotocols())
	require.Equal(t, "rollcall.v1.msgpack", schema.Msgpack.Subprotocol())
}

func TestDecodeRefusesJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]error{
		``:                                   schema.ErrMalformed,
		`null`:                               schema.ErrMalformed,
		`17`:                                 schema.ErrMalformed,
		`[{"type":"ping"}]`:                  schema.ErrMalformed,
		`{"id":"c1"}`:                        schema.ErrMalformed,
		`{"type":7}`:                         schema.ErrMalformed,
		`{"type":""}`:                        schema.ErrMalformed,
		`{"type":"ping"`:                     schema.ErrMalformed,
		`{"type":"ping"}{"type":"ping"}`:     schema.ErrMalformed,
		"{\"type\":\"ping\",\"x\":\"\xff\"}": schema.ErrNotUTF8,
		`{"type":"send","payload":` + deep(schema.MaxFrameDepth) + `}`:   schema.ErrMalformed,
		`{"type":"send","payload":` + deep(schema.MaxFrameDepth-1) + `}`: nil,
		`{"type":"ping","x":[1],"x":{"y":"{[\"["}}`:                      nil,
		`{"type":"ack","acks":["1"]}`:                                    schema.ErrFrameField,
		`{"type":"ack","acks":[-1]}`:                                     schema.ErrFrameField,
		`{"type":"ack","acks":[18446744073709551616]}`:                   schema.ErrFrameField,
		`{"type":"watch","uids":"bob"}`:                                  schema.ErrFrameField,
	} {
		_, err := schema.JSON.DecodeClient([]byte(text))
		require.ErrorIs(t, err, want, text)
	}
}

func TestDecodeNamesTheField(t *testing.T) {
	f, err := schema.JSON.DecodeClient([]byte(`{"type":"ack","acks":{},"id":"c9"}`))
	require.ErrorIs(t, err, schema.ErrFrameField)
	require.EqualError(t, err, "decode frame: bad field: acks takes no object")
	require.Equal(t, schema.TypeAck, f.Type)
	require.Equal(t, "c9", f.ID, "the error frame echoes it")

	_, err = schema.JSON.DecodeServer([]byte(`{"type":"presence","users":[{"uid":"bob","devices":[{"flag":1}]}]}`))
	require.ErrorContains(t, err, "users.devices.flag takes no number")
	_, err = schema.JSON.DecodeServer([]byte(`{"type":"presence","users":[{"uid":"bob","stamp":[1,"x"]}]}`))
	require.ErrorIs(t, err, schema.ErrFrameField)
}

func TestDecodeRefusesMsgpack(t *testing.T) {
	pack := func(v any) []byte {
		b, err := msgpack.Marshal(v)
		require.NoError(t, err)
		return b
	}
	deep := func(n int) any {
		var v any = 1
		for range n {
			v = []any{v}
		}
		return v
	}
	type m = map[string]any
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":          {nil, schema.ErrMalformed},
		"bomb":           {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, schema.ErrMalformed},
		"map bomb":       {[]byte{0xdf, 0x7f, 0xff, 0xff, 0xff, 0xa0}, schema.ErrMalformed},
		"extension":      {[]byte{0xd6, 0xff, 0, 0, 0, 0}, schema.ErrMalformed},
		"no map":         {pack("ping"), schema.ErrMalformed},
		"no type":        {pack(m{"id": "c1"}), schema.ErrMalformed},
		"two values":     {append(pack(m{"type": "ping"}), 0xc0), schema.ErrMalformed},
		"number as key":  {pack(map[any]any{"type": "ping", 1: 2}), schema.ErrMalformed},
		"bytes as key":   {[]byte{0x81, 0xc4, 0x01, 'x', 0xc0}, schema.ErrMalformed},
		"NaN":            {pack(m{"type": "send", "payload": math.NaN()}), schema.ErrMalformed},
		"infinity":       {pack(m{"type": "send", "payload": math.Inf(1)}), schema.ErrMalformed},
		"bad UTF-8":      {pack(m{"type": "ping", "x": "\xff"}), schema.ErrMalformed},
		"too deep":       {pack(m{"type": "send", "payload": deep(schema.MaxFrameDepth)}), schema.ErrMalformed},
		"just as deep":   {pack(m{"type": "send", "payload": deep(schema.MaxFrameDepth - 1)}), nil},
		"wrong type":     {pack(m{"type": "ack", "acks": []string{"1"}}), schema.ErrFrameField},
		"unknown fields": {pack(m{"type": "ping", "new": m{"x": []int{1}}}), nil},
	} {
		_, err := schema.Msgpack.DecodeClient(c.b)
		require.ErrorIs(t, err, c.want, name)
	}
}

// What repeats a key is harmless: the last one counts, in both encodings.
func TestDecodeRepeatedKey(t *testing.T) {
	f, err := schema.JSON.DecodeClient([]byte(`{"type":"hello","type":"ping"}`))
	require.NoError(t, err)
	require.Equal(t, schema.TypePing, f.Type)
	f, err = schema.Msgpack.DecodeClient([]byte("\x82\xa4type\xa5hello\xa4type\xa4ping"))
	require.NoError(t, err)
	require.Equal(t, schema.TypePing, f.Type)
}

func TestUnknownTypeAndCode(t *testing.T) {
	f, err := schema.JSON.DecodeClient([]byte(`{"type":"dance","id":"c1"}`))
	require.NoError(t, err)
	require.Equal(t, schema.FrameType("dance"), f.Type)
	s, err := schema.JSON.DecodeServer([]byte(`{"type":"error","code":"from_the_future"}`))
	require.NoError(t, err)
	require.ErrorIs(t, s.Code, schema.FrameInternal)
	require.True(t, schema.FrameRateLimited.Retryable())
	require.False(t, schema.FrameNotAllowed.Retryable())
	require.EqualError(t, schema.FrameNoBackend, "no_backend")
}

// A payload keeps its value on the way JSON, msgpack, JSON; spelling may change.
func TestPayloadThroughMsgpack(t *testing.T) {
	long := strings.Repeat("é", 40000)
	for in, want := range map[string]string{
		`null`: `null`, `true`: `true`, `false`: `false`, `""`: `""`, `[]`: `[]`, `{}`: `{}`,
		` [ 1 , 2 ] `: `[1,2]`, `"\u0000\n\"\\\/<"`: `"\u0000\u000a\"\\/<"`, `"\ud800"`: `"` + "\ufffd" + `"`,
		`0`: `0`, `-0`: `-0`, `127`: `127`, `128`: `128`, `255`: `255`, `256`: `256`, `65535`: `65535`, `65536`: `65536`,
		`4294967295`: `4294967295`, `4294967296`: `4294967296`, `18446744073709551615`: `18446744073709551615`,
		`-1`: `-1`, `-32`: `-32`, `-33`: `-33`, `-128`: `-128`, `-129`: `-129`, `-32768`: `-32768`, `-32769`: `-32769`,
		`-2147483648`: `-2147483648`, `-2147483649`: `-2147483649`, `-9223372036854775808`: `-9223372036854775808`,
		`0.1`: `0.1`, `1.0`: `1`, `5e-324`: `5e-324`, `1E2`: `100`, `9007199254740993`: `9007199254740993`,
		`18446744073709551616`: `1.8446744073709552e+19`, `1e400`: `1.7976931348623157e+308`, `-1e400`: `-1.7976931348623157e+308`,
		`{"b":1,"a":2,"b":3}`: `{"b":1,"a":2,"b":3}`,
		`"` + long + `"`:      `"` + long + `"`, `"` + long[:200] + `"`: `"` + long[:200] + `"`, `"` + long[:2000] + `"`: `"` + long[:2000] + `"`,
		manyItems(15): manyItems(15), manyItems(16): manyItems(16), manyItems(70000): manyItems(70000),
	} {
		packed, err := schema.Msgpack.Encode(schema.ClientFrame{Type: schema.TypeSend, Payload: raw(in)})
		require.NoError(t, err, in[:min(len(in), 80)])
		require.NoError(t, schema.Guard(packed, schema.MaxFrameDepth))
		f, err := schema.Msgpack.DecodeClient(packed)
		require.NoError(t, err)
		require.Equal(t, want, string(f.Payload))
	}
}

func manyItems(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `,{"%d":[%d]}`, i, i)
	}
	return "[" + b.String()[1:] + "]"
}

// The library reads what this package writes, and base64 stands for its bytes.
func TestMsgpackIsMsgpack(t *testing.T) {
	b, err := schema.Msgpack.Encode(schema.ServerFrame{Type: schema.TypeSent, Reply: raw(manyItems(20))})
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, msgpack.Unmarshal(b, &got))
	require.Len(t, got["reply"], 20)

	b, err = msgpack.Marshal(map[string]any{"type": "send", "payload": []any{[]byte("hello"), float32(0.5), int8(-7)}})
	require.NoError(t, err)
	f, err := schema.Msgpack.DecodeClient(b)
	require.NoError(t, err)
	require.Equal(t, `["aGVsbG8=",0.5,-7]`, string(f.Payload))
}

func TestWithAck(t *testing.T) {
	plain := schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: raw(`{"a":[1]}`)}
	for _, e := range []schema.Encoding{schema.JSON, schema.Msgpack} {
		once, err := e.Encode(plain)
		require.NoError(t, err)
		before := bytes.Clone(once)
		for _, ack := range []uint64{1, 300, math.MaxUint64} {
			want := plain
			want.Ack = ack
			got, err := e.DecodeServer(e.WithAck(once, ack))
			require.NoError(t, err)
			require.Equal(t, want, got)
			whole, err := e.Encode(want)
			require.NoError(t, err)
			require.Equal(t, hex.EncodeToString(whole), hex.EncodeToString(e.WithAck(once, ack)), "as if encoded whole")
		}
		require.Equal(t, before, once, "shared by all sessions")
	}
}

func TestEncodeRefusesPayload(t *testing.T) {
	deep := strings.Repeat("[", schema.MaxFrameDepth) + strings.Repeat("]", schema.MaxFrameDepth)
	for payload, want := range map[string]error{
		deep: schema.ErrFrameField, deep[1 : len(deep)-1]: nil, `{`: schema.ErrFrameField, `1 2`: schema.ErrFrameField, "\"\xff\"": schema.ErrNotUTF8,
	} {
		require.ErrorIs(t, schema.CheckPayload(raw(payload)), want, payload)
		for _, e := range []schema.Encoding{schema.JSON, schema.Msgpack} {
			_, err := e.Encode(schema.ServerFrame{Type: schema.TypeRecv, Payload: raw(payload)})
			require.ErrorIs(t, err, want, payload)
		}
	}
	require.ErrorIs(t, schema.CheckPayload(nil), schema.ErrFrameField)
}

func BenchmarkEncodeRecv(b *testing.B) {
	f := schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: raw(`{"text":"hello there","at":1790000000}`)}
	for _, e := range []schema.Encoding{schema.JSON, schema.Msgpack} {
		once, err := e.Encode(f)
		require.NoError(b, err)
		b.Run(e.Subprotocol()+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = e.Encode(f)
			}
		})
		b.Run(e.Subprotocol()+"/ack", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = e.WithAck(once, 17)
			}
		})
		b.Run(e.Subprotocol()+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = e.DecodeServer(once)
			}
		})
	}
}

func FuzzDecodeClientJSON(f *testing.F)    { fuzzClient(f, schema.JSON) }
func FuzzDecodeClientMsgpack(f *testing.F) { fuzzClient(f, schema.Msgpack) }
func FuzzDecodeServerJSON(f *testing.F)    { fuzzServer(f, schema.JSON) }
func FuzzDecodeServerMsgpack(f *testing.F) { fuzzServer(f, schema.Msgpack) }

// What decodes can be sent on in both encodings, and reads the same again.
func fuzzClient(f *testing.F, e schema.Encoding) {
	seed(f, e)
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := e.DecodeClient(b)
		if err != nil {
			return
		}
		for _, other := range []schema.Encoding{schema.JSON, schema.Msgpack} {
			again, err := other.Encode(frame)
			require.NoError(t, err)
			got, err := other.DecodeClient(again)
			require.NoError(t, err)
			require.Equal(t, frame.Type, got.Type)
			require.Equal(t, frame.ID, got.ID)
			require.Equal(t, len(frame.Acks), len(got.Acks))
			require.Equal(t, frame.Payload == nil, got.Payload == nil)
		}
	})
}

func fuzzServer(f *testing.F, e schema.Encoding) {
	seed(f, e)
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := e.DecodeServer(b)
		if err != nil {
			return
		}
		for _, other := range []schema.Encoding{schema.JSON, schema.Msgpack} {
			again, err := other.Encode(frame)
			require.NoError(t, err)
			got, err := other.DecodeServer(again)
			require.NoError(t, err)
			require.Equal(t, frame.Type, got.Type)
			require.Equal(t, frame.Ack, got.Ack)
			require.Equal(t, len(frame.Users), len(got.Users))
		}
	})
}

func seed(f *testing.F, e schema.Encoding) {
	f.Helper()
	for _, frame := range goldenFrames {
		b, err := e.Encode(frame)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte(`{"type":"send","payload":` + string(json.RawMessage(manyItems(17))) + `}`))
	f.Add([]byte{0x81, 0xa4, 't', 'y', 'p', 'e', 0xdd, 0xff, 0xff, 0xff, 0xff})
}
