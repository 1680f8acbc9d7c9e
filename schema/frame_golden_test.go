package schema_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The frames of gateway/PROTOCOL.md, one of each type, in the order of testdata/frames.golden.
var goldenFrames = []schema.Frame{
	schema.ClientFrame{Type: schema.TypeHello, Token: "t.o.k", Device: "phone-1", Flag: "app", Level: "master",
		Resume: "AAAAAAAAAAAAAAAAAAAAAA.1z", Client: "name/1.2"},
	schema.ClientFrame{Type: schema.TypePing},
	schema.ClientFrame{Type: schema.TypeAck, Acks: []uint64{17, 300, 1 << 40}},
	schema.ClientFrame{Type: schema.TypeSend, ID: "c1", Payload: raw(`{"text":"<hi> \"Zoë\" \ud83d\ude80","n":[0,-1,1.5,18446744073709551615,1e300,null,true,{}]}`)},
	schema.ClientFrame{Type: schema.TypeWatch, ID: "c2", UIDs: []schema.UID{"bob", "zoë"}},
	schema.ClientFrame{Type: schema.TypeUnwatch, UIDs: []schema.UID{"bob"}},
	schema.ClientFrame{Type: schema.TypeRefresh, ID: "c3", Token: "n.e.w"},

	schema.ServerFrame{Type: schema.TypeConnected, Session: "AAAAAAAAAAAAAAAAAAAAAA.20", Node: "gw-1",
		Boot: "AAAAAAAAAAAAAAAAAAAAAA", UID: "alice", Device: "phone-1", Flag: "app", Level: "master",
		HeartbeatMS: 30000, ExpiresAt: 1790000000, MaxBytes: 65536},
	schema.ServerFrame{Type: schema.TypePong},
	schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: raw(`null`), Ack: 17},
	schema.ServerFrame{Type: schema.TypeSent, ID: "c1", Reply: raw(`[]`)},
	schema.ServerFrame{Type: schema.TypePresence, Users: []schema.WatchedUser{
		{UID: "bob", State: "online", Devices: []schema.WatchedDevice{{Device: "d", Flag: "web", Level: "slave"}}, Reason: "connect", Stamp: &schema.Stamp{Fence: 1790000000123, K: 4}},
		{UID: "eve", State: "unknown"}}},
	schema.ServerFrame{Type: schema.TypeRefreshed, ID: "c3", ExpiresAt: 1790000000},
	schema.ServerFrame{Type: schema.TypeOK, ID: "c2"},
	schema.ServerFrame{Type: schema.TypeError, ID: "c1", Code: schema.FrameUnavailable, Message: "slot 7 has no owner",
		Retryable: true, RetryAfterMS: 500, Close: schema.CloseKicked},
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// Each golden entry is a line of JSON and a line of the msgpack bytes in hex. There is no way to
// rewrite the file from here: its bytes are a promise to clients that are already out.
func TestFramesGolden(t *testing.T) {
	file, err := os.ReadFile("testdata/frames.golden")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	require.Len(t, lines, 2*len(goldenFrames))
	for i, f := range goldenFrames {
		text, err := schema.JSON.Encode(f)
		require.NoError(t, err)
		require.Equal(t, lines[2*i], string(text))
		packed, err := schema.Msgpack.Encode(f)
		require.NoError(t, err)
		require.Equal(t, lines[2*i+1], hex.EncodeToString(packed), "%s", text)
		require.Equal(t, normal(f), decode(t, schema.JSON, f, text))
		require.Equal(t, normal(f), decode(t, schema.Msgpack, f, packed))
	}
}

// decode reads b as a frame of f's side.
func decode(t *testing.T, e schema.Encoding, f schema.Frame, b []byte) schema.Frame {
	t.Helper()
	if _, ok := f.(schema.ClientFrame); ok {
		got, err := e.DecodeClient(b)
		require.NoError(t, err)
		return normalClient(got)
	}
	got, err := e.DecodeServer(b)
	require.NoError(t, err)
	return got
}

// normal gives payloads one spelling: 1e300 is 1e+300 after a way through msgpack, and escapes
// are resolved.
func normal(f schema.Frame) schema.Frame {
	if c, ok := f.(schema.ClientFrame); ok {
		return normalClient(c)
	}
	return f
}

func normalClient(f schema.ClientFrame) schema.ClientFrame {
	if f.Payload == nil {
		return f
	}
	dec := json.NewDecoder(strings.NewReader(string(f.Payload)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil {
		b, _ := json.Marshal(v)
		f.Payload = json.RawMessage(strings.ReplaceAll(string(b), "e+", "e"))
	}
	return f
}
