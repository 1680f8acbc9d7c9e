package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// pushed pushes a message to all of a crowd, each second of whom speaks msgpack, and gives what waits for
// each.
func (c *crowd) pushed(f schema.PushFrame) (frames [][]byte) {
	c.t.Helper()
	l := new(life)
	f.Recipients = nil
	for i, s := range c.sessions {
		if s.num == 0 {
			s.enc, s.who.UID = schema.Encoding(i%2), "bob"
			c.g.registry.add(s)
		}
		s.life, s.seqs = l, []schema.OwnerSeq{1}
		f.Recipients = append(f.Recipients, schema.Recipient{UID: s.who.UID, Session: s.num, Seq: 1})
	}
	results, _ := c.g.pushFrames(l, &schema.Push{Frames: []schema.PushFrame{f}})
	for i, s := range c.sessions {
		require.Equal(c.t, schema.PushWritten, results[i])
		waiting, _, _ := s.take()
		require.Len(c.t, waiting, 1)
		frames = append(frames, waiting[0])
	}
	return frames
}

// TestOneEncodingASubprotocol pushes to a thousand sessions: those of a subprotocol wait for the very same
// bytes. Where each owes an acknowledgement, its number is put behind a copy of them.
func TestOneEncodingASubprotocol(t *testing.T) {
	c := gather(t, 1000)
	f := schema.PushFrame{ID: "m1", From: "alice", Payload: []byte(`{"text":"hé"}`)}
	shared := map[schema.Encoding][]byte{}
	encodings := map[*byte]bool{}
	for i, frame := range c.pushed(f) {
		encodings[&frame[0]] = true
		shared[c.sessions[i].enc] = frame
	}
	require.Len(t, encodings, 2)
	require.Len(t, shared, 2)
	for enc, frame := range shared {
		got, err := enc.DecodeServer(frame)
		require.NoError(t, err)
		require.Equal(t, schema.ServerFrame{Type: schema.TypeRecv, ID: f.ID, From: f.From, Payload: f.Payload}, got)
	}
	f.Ack = true
	for i, frame := range c.pushed(f) {
		enc := c.sessions[i].enc
		require.Equal(t, enc.WithAck(shared[enc], 1), frame)
	}
}
