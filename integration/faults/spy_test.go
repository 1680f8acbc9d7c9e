package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// spy sends logins to authorities that nobody should believe any more, in the name of a gateway that
// lives, and reads what they answer.
type spy struct {
	t     *testing.T
	nc    *nats.Conn
	inbox string
	sub   *nats.Subscription // of one inbox a request: an answer is allowed once
	seq   schema.OwnerSeq
}

func newSpy(t *testing.T, s *stage) *spy {
	t.Helper()
	nc := connect(t, s.servers, deploy.Operator, "faults/spy")
	// The authorities answer to inboxes of gateways: an operator may listen there.
	y := &spy{t: t, nc: nc, inbox: subjects.Inbox("gateway") + ".spy", seq: 1 << 40}
	var err error
	y.sub, err = nc.SubscribeSync(y.inbox + ".*")
	require.NoError(t, err)
	return y
}

// register sends a login for a user of each slot to those targets: of another device than the
// user's own, which no policy minds.
func (y *spy) register(from schema.Process, targets [schema.Slots]schema.Target, slots []schema.Slot) {
	y.t.Helper()
	uids := names(schema.Slots)
	for _, s := range slots {
		y.seq++
		req := &schema.Register{
			Head: schema.SlotHead{Target: targets[s], Seen: targets[s].Fence, From: from},
			Logins: []schema.Login{{Left: 5 * time.Second, Route: schema.Route{
				UID: uids[s], Owner: from, Session: schema.NewSessionNum(1<<20, uint32(y.seq)), Device: "spy", Flag: "spy", Listener: "ws", Seq: y.seq,
			}}},
		}
		data, err := schema.Marshal(req)
		require.NoError(y.t, err)
		require.NoError(y.t, y.nc.PublishRequest(prefix.Slot(s, targets[s].Fence, subjects.Register), fmt.Sprintf("%s.%d", y.inbox, y.seq), data))
	}
	require.NoError(y.t, y.nc.Flush())
}

// answers counts what was answered by now, by code: that of the request, else of the login.
func (y *spy) answers() map[string]int {
	y.t.Helper()
	said := map[string]int{}
	for {
		m, err := y.sub.NextMsg(200 * time.Millisecond)
		if errors.Is(err, nats.ErrNoResponders) {
			said["nobody there"]++
			continue
		}
		if err != nil {
			return said
		}
		var a schema.RegisterAnswer
		require.NoError(y.t, schema.Unmarshal(m.Data, &a))
		code := a.Head.Code
		if code == schema.CodeOK && len(a.Results) == 1 {
			code = a.Results[0].Code
		}
		said[code.String()]++
	}
}
