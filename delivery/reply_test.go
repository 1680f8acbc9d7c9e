package delivery

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The JSON of the service is frozen: additions only.
func TestReplies(t *testing.T) {
	r := route("alice", 1, 7, "phone-1", "app")
	r.Level, r.Order = schema.Master, schema.Order{Fence: 5, N: 2}
	r.Age, r.Idle, r.TTL = 1200*time.Millisecond, 300*time.Millisecond, 89700*time.Millisecond
	alice := online("alice", r)
	alice.Stamp, alice.Suspect = schema.Stamp{Fence: 5, K: 9}, true
	p := newPlan([]Found{alice, {UID: "bob", State: schema.Offline}, people()[3]}, nil, filter{})
	p.settle(p.all(), []schema.PushResult{schema.PushQueueFull})
	p.finish()
	for want, reply := range map[string]any{
		`{"uid":"alice","state":"online","partial":false,"suspect":true,"why":"","stamp":[5,9],"routes":[{"node":"gw-1","boot":"bbbbbbbbbbbbbbbbbbbbbb","session":"bbbbbbbbbbbbbbbbbbbbbb.7","listener":"ws","device":"phone-1","flag":"app","level":"master","connected_ms":1200,"active_ms":300,"ttl_ms":89700,"order":[5,2]}]}`: userReply(&alice),
		`{"uid":"dave","state":"unknown","partial":false,"suspect":false,"why":"rebuilding","routes":[]}`: userReply(&people()[3]),
		`{"id":"m1","results":[{"uid":"alice","reached":false,"state":"online","routes":[{"node":"gw-1","session":"bbbbbbbbbbbbbbbbbbbbbb.7","device":"phone-1","result":"queue_full"}]},{"uid":"bob","reached":false,"state":"offline","routes":[]},{"uid":"dave","reached":false,"state":"unknown","why":"rebuilding","routes":[]}]}`: pushReply(&Pushed{ID: "m1", Users: p.users}, 3, false),
		`{"id":"m1","results":[],"next":1}`:                 pushReply(&Pushed{ID: "m1", Users: []PushedUser{{UID: "alice", Reached: true}}}, 2, true),
		`{"id":"m1","reached":0,"unreached":2,"unknown":1}`: counts(&Pushed{ID: "m1", Users: p.users}),
	} {
		got, err := json.Marshal(reply)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestRequests(t *testing.T) {
	var push schema.PushCall
	require.NoError(t, decode([]byte(`{"uids":["alice"],"payload":{"a":[1,2]},"id":"m1","from":"bob","device":"d","flag":"f","ack":true,"ack_wait_ms":5,
		"except":{"uid":"u","node":"n","boot":"b","session":"s"},"await_ms":7,"fallback":"x","report":"counts","later":{"version":2}}`), &push))
	require.Equal(t, schema.PushCall{UIDs: []schema.UID{"alice"}, Payload: json.RawMessage(`{"a":[1,2]}`), ID: "m1", From: "bob", Device: "d", Flag: "f",
		Ack: true, AckWaitMS: 5, Except: &schema.Except{UID: "u", Node: "n", Boot: "b", Session: "s"}, AwaitMS: 7, Fallback: "x", Report: schema.ReportCounts}, push)
	var kick schema.KickCall
	require.NoError(t, decode([]byte(`{"uid":"u","device":"d","flag":"f","session":"s","token_id":"t","reason":"r","except_session":"e"}`), &kick))
	require.Equal(t, schema.KickCall{UID: "u", Device: "d", Flag: "f", Session: "s", TokenID: "t", Reason: "r", ExceptSession: "e"}, kick)
	for body, want := range map[string]string{
		`[]`:              "bad request: request is of type array: it takes an object",
		`{"uid":7}`:       "bad request: uid cannot be of type number",
		`{"uid":`:         "bad request: request is not JSON: unexpected end of JSON input",
		"{\"uid\":\"\xff": "bad request: request is not in UTF-8",
	} {
		require.EqualError(t, decode([]byte(body), &kick), want)
	}
	require.NoError(t, decode(nil, &kick))
}
