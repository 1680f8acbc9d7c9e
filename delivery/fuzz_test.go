package delivery

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Whatever a backend sends: a call is refused with a code below 500, or makes a message that can
// be written and fits, whose payload is what was sent.
func FuzzPushCall(f *testing.F) {
	f.Add([]byte(`{"uids":["alice"],"payload":{"a":1},"id":"m1","from":"bob","device":"d","flag":"app"}`))
	f.Add([]byte(`{"uids":["a","b"],"payload":null,"report":"counts","await_ms":5,"except":{"uid":"u","node":"n","boot":"b","session":"s"}}`))
	f.Add([]byte(`{"uids":[1],"payload":`))
	f.Add([]byte(`[]`))
	s := NewService(new(Delivery), ServiceConfig{})
	f.Fuzz(func(t *testing.T, body []byte) {
		var req schema.PushCall
		err := decode(body, &req)
		var m Message
		if err == nil {
			_, m, err = s.pushCall(&req)
		}
		if err != nil {
			require.Less(t, status(err), 500, "%v", err)
			return
		}
		require.True(t, json.Valid(m.Payload))
		var found []Found
		for i, uid := range req.UIDs {
			found = append(found, online(uid, route(uid, 1, i, req.Device, "app")))
		}
		p := newPlan(found, nil, filter{})
		for _, b := range p.batches(p.all(), m.frameSize()) {
			data, err := schema.Marshal(&schema.Push{To: b.to, Frames: []schema.PushFrame{{ID: m.ID, From: m.From, Payload: m.Payload, Recipients: p.recipients(b)}}})
			require.NoError(t, err)
			require.LessOrEqual(t, len(data), b.size)
		}
	})
}
