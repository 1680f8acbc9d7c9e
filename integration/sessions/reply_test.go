package sessions_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestNoAnswerIsAWriteToTheBucket: who may answer may publish wherever a request says, so that a backend
// could have the answer to presence.sessions, which names a node and a boot, put over an authority's key,
// and a gateway or delivery the same by what they may ask.
func TestNoAnswerIsAWriteToTheBucket(t *testing.T) {
	m := newMesh(t, steady...)
	const none = subjects.Prefix("")
	canary := none.BucketKey("canary")
	operator := m.nats.Connect(deploy.Operator)
	heard, err := operator.SubscribeSync(canary)
	require.NoError(t, err)
	require.NoError(t, operator.Flush())

	status, err := ask[schema.SlotsReply](m, "slots", struct{}{})
	require.NoError(t, err)
	processes := map[schema.NodeID]schema.Process{}
	for _, p := range status.Processes {
		processes[p.Node] = schema.Process{Node: p.Node, Boot: p.Boot}
	}
	kick, err := schema.Marshal(&schema.Kick{To: processes["gw-1"]})
	require.NoError(t, err)
	for _, c := range []struct {
		as      deploy.User
		subject string
		body    []byte
	}{
		{deploy.Backend, none.ServiceCall("sessions"), []byte(`{"node":"gw-1"}`)},
		{deploy.Backend, none.ServiceCall("sessions"), []byte(`{`)}, // an error is an answer too
		{deploy.Gateway, none.Authority(processes["a-1"], subjects.Lookup), nil},
		{deploy.Gateway, none.Authority(processes["a-1"], subjects.Status), nil},
		{deploy.Delivery, none.Kick(processes["gw-1"]), kick},
		{deploy.Operator, none.DrainGateway(processes["gw-2"]), nil},
		{deploy.Operator, none.DrainAuthority(processes["a-2"]), nil},
	} {
		nc := m.nats.Connect(c.as)
		require.NoError(t, nc.PublishRequest(c.subject, canary, c.body))
		if c.as != deploy.Operator { // who asks for himself afterwards knows that the first was served
			_, err := nc.RequestWithContext(t.Context(), c.subject, c.body)
			require.NoError(t, err, c.subject)
		}
		_, err = heard.NextMsg(500 * time.Millisecond)
		require.ErrorIs(t, err, nats.ErrTimeout, "%s as %s", c.subject, c.as)
	}
}
