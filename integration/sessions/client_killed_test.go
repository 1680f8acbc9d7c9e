package sessions_test

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// atOnce bounds the time from the end of a client's process to the end of its route.
const atOnce = 500 * time.Millisecond

// TestClientKilled kills clients that are processes of their own, without a close: the route goes at
// once, since the kernel closes the socket. A second device of the same user is not concerned.
func TestClientKilled(t *testing.T) {
	m := newMesh(t, quick...)
	events := make(chan schema.Event, 64)
	sub, err := m.backend.Subscribe(subjects.Prefix("").AllEvents(), func(msg *nats.Msg) {
		var e schema.Event
		if json.Unmarshal(msg.Data, &e) == nil && (e.Type == schema.EventOffline || e.Type == schema.EventRemoved) {
			events <- e
		}
	})
	require.NoError(t, err)
	require.NoError(t, m.backend.Flush())
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // the connection may be closed
	for i := range 6 {
		uid, g := schema.UID(fmt.Sprintf("killed-%d", i)), m.gateways[i%2]
		var second *device // of every other user
		if i%2 == 1 {
			second = m.connect(m.gateways[0], uid, laptop)
			require.NoError(t, second.login())
		}
		client := process.Start(t, "connect", "--url", "ws://"+g.address+"/ws", "--token", string(uid), "--device", string(phone), "--flag", "app")
		client.Line("connected to " + g.node + " as " + string(uid))
		begun := time.Now()
		client.Signal(syscall.SIGKILL)
		e := m.next(events)
		took := time.Since(begun)
		t.Logf("%s: %s %v after kill -9", uid, e.Type, took.Round(10*time.Microsecond))
		require.Less(t, took, atOnce)
		require.Equal(t, uid, e.UID)
		require.Equal(t, phone, e.Route.Device)
		require.Equal(t, schema.ReasonLeave, e.Reason)
		if second != nil {
			require.Equal(t, schema.EventRemoved, e.Type)
			requireSeen(t, m, []*device{second})
			continue
		}
		require.Equal(t, schema.EventOffline, e.Type)
		require.Equal(t, schema.Offline, m.found([]schema.UID{uid})[0].State)
	}
}

func (m *mesh) next(events <-chan schema.Event) schema.Event {
	m.t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		require.FailNow(m.t, "no event")
		return schema.Event{}
	}
}
