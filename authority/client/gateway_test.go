package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestKick(t *testing.T) {
	entries := []schema.KickEntry{{UID: "u", Session: 1, Close: schema.CloseKicked}, {UID: "u", Session: 2, Close: schema.CloseKicked}}
	answer := func(from schema.Process, codes ...schema.Code) func([]byte) schema.Message {
		return func([]byte) schema.Message {
			return &schema.KickAnswer{ProcessHead: schema.ProcessHead{From: from}, Results: codes}
		}
	}
	for name, tc := range map[string]struct {
		handler func([]byte) schema.Message
		gone    bool
		want    error
		took    time.Duration
		asked   int
	}{
		"answered":           {handler: answer(g1, schema.CodeOK, schema.CodeUnknown), asked: 1},
		"gone by its key":    {handler: answer(g1, schema.CodeOK, schema.CodeUnknown), gone: true, want: ErrGone},
		"met by nobody":      {want: ErrGone, took: 200 * time.Millisecond, asked: 3},
		"silence":            {handler: func([]byte) schema.Message { return nil }, want: ErrTimeout, took: 400 * time.Millisecond, asked: 1},
		"answered by others": {handler: answer(a1, schema.CodeOK, schema.CodeUnknown), want: ErrAnswer, asked: 1},
		"too few results":    {handler: answer(g1, schema.CodeOK), want: ErrAnswer, asked: 1},
		"refused": {handler: func([]byte) schema.Message {
			return &schema.KickAnswer{ProcessHead: schema.ProcessHead{From: g1, Code: schema.CodeBad, Why: "no"}}
		}, want: schema.ErrBad, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n, v := newNATS(), newView(a1)
			v.gone[g1] = tc.gone
			if tc.handler != nil {
				n.handle("kick.g1."+string(g1.Boot), tc.handler)
			}
			run(t, v, n, func(t *testing.T, c *Client) {
				require.Equal(t, tc.took, took(func() {
					codes, err := c.Kick(t.Context(), g1, entries)
					require.ErrorIs(t, err, tc.want)
					if tc.want == nil {
						require.Equal(t, []schema.Code{schema.CodeOK, schema.CodeUnknown}, codes)
					} else {
						require.Nil(t, codes)
					}
				}))
				require.Equal(t, tc.asked, n.times("kick."))
			})
		})
	}
}

// A process that stops answering while it is being proven gone, or comes back, is not gone.
func TestKickProvesNothingBySilence(t *testing.T) {
	n := newNATS()
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		time.AfterFunc(150*time.Millisecond, func() { n.handle("kick.", func([]byte) schema.Message { return nil }) })
		_, err := c.Kick(t.Context(), g1, []schema.KickEntry{{UID: "u"}})
		require.ErrorIs(t, err, ErrTimeout)
		require.NotErrorIs(t, err, ErrGone)
	})
}

func TestPush(t *testing.T) {
	n := newNATS()
	n.handle("push.g1."+string(g1.Boot), func(data []byte) schema.Message {
		m := read(data, new(schema.Push))
		return &schema.PushAnswer{ProcessHead: schema.ProcessHead{From: m.To}, Results: []schema.PushResult{schema.PushWritten, schema.PushPending, schema.PushQueueFull}}
	})
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		frame := func(n int) schema.PushFrame {
			f := schema.PushFrame{ID: "m", Payload: []byte("1")}
			for i := range n {
				f.Recipients = append(f.Recipients, schema.Recipient{UID: "u", Session: schema.SessionNum(i)})
			}
			return f
		}
		got, err := c.Push(t.Context(), &schema.Push{To: g1, Frames: []schema.PushFrame{frame(1), frame(2)}})
		require.NoError(t, err)
		require.Equal(t, []schema.PushResult{schema.PushWritten, schema.PushPending, schema.PushQueueFull}, got)
		_, err = c.Push(t.Context(), &schema.Push{To: g1, Frames: []schema.PushFrame{frame(1)}})
		require.ErrorIs(t, err, ErrAnswer)
		_, err = c.Push(t.Context(), &schema.Push{To: process("g2", "h"), Frames: []schema.PushFrame{frame(1)}})
		require.ErrorIs(t, err, ErrGone)
	})
}
