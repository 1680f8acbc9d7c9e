package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestABackendReadsWhatIsKept, with no more than deploy/nats.conf permits it: the events by a durable
// pull consumer, which goes on where it was, and when a user was last there by a look-up.
func TestABackendReadsWhatIsKept(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s", "--grace", "0", "--events", "--last-seen", "720h")
	require.Zero(t, r.Code, r.Err)
	s.authority("a-1").Line("serving")
	s.delivery("d-1").Line("serving")
	at := address(s.gateway("gw-1"))
	visit := func(uid string) {
		client := process.StartWith(t, nil, "connect", "--url", "ws://"+at+"/ws", "--token", uid, "--device", "phone")
		client.Line("connected to gw-1 as " + uid)
		client.Stop()
	}
	r = process.Run(t, s.as(deploy.Backend), "", "lookup", "alice", "bob", "--await", "10s") // nothing is told while slots are rebuilt
	require.Zero(t, r.Code, r.Err)
	visit("alice")

	refused := make(chan error, 64)
	backend, err := nats.Connect("", append(s.nats.Options(deploy.Backend), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...)
	require.NoError(t, err)
	t.Cleanup(backend.Close)
	js, err := jetstream.New(backend)
	require.NoError(t, err)
	events := subjects.Prefix("").EventStream()
	audit := jetstream.ConsumerConfig{Durable: "audit", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: subjects.Prefix("").AllEvents()}
	consumer, err := js.CreateOrUpdateConsumer(t.Context(), events, audit)
	require.NoError(t, err)
	require.Equal(t, []string{"online alice", "offline alice"}, take(t, consumer, 2))
	visit("bob")
	again, err := js.Consumer(t.Context(), events, "audit") // after a restart, say
	require.NoError(t, err)
	require.Equal(t, []string{"online bob", "offline bob"}, take(t, again, 2))
	process.Eventually(t, 10*time.Second, "all is acknowledged", func() bool {
		info, err := again.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
	require.NoError(t, js.DeleteConsumer(t.Context(), events, "audit"))

	var reply schema.LookupReply
	process.Eventually(t, 10*time.Second, "it is kept when they went", func() bool {
		answer, err := backend.RequestWithContext(t.Context(), subjects.Prefix("").ServiceCall("lookup"), []byte(`{"uids":["alice","bob","carol"],"last_seen":true}`))
		return err == nil && json.Unmarshal(answer.Data, &reply) == nil && reply.Results[0].LastSeen != "" && reply.Results[1].LastSeen != ""
	})
	require.True(t, when(t, reply.Results[0].LastSeen).Before(when(t, reply.Results[1].LastSeen)))
	require.Empty(t, reply.Results[2].LastSeen+reply.Results[2].LastSeenWhy)
	require.Empty(t, refused)
}

func when(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at
}

// take gives the next events of a consumer, as type and uid, and acknowledges them.
func take(t *testing.T, c jetstream.Consumer, n int) (list []string) {
	t.Helper()
	for len(list) < n {
		m, err := c.Next(jetstream.FetchMaxWait(10 * time.Second))
		require.NoError(t, err)
		var e schema.Event
		require.NoError(t, json.Unmarshal(m.Data(), &e))
		if e.Type == schema.EventRebuilt {
			require.NoError(t, m.Ack())
			continue
		}
		list = append(list, string(e.Type)+" "+string(e.UID))
		require.NoError(t, m.Ack())
	}
	return list
}
