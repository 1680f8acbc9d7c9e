package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestConnect(t *testing.T) {
	for _, enc := range []schema.Encoding{schema.JSON, schema.Msgpack} {
		perform(t, nil, func(t *testing.T, st *stage) {
			d := st.dial(enc)
			d.send(schema.ClientFrame{Type: schema.TypeHello, ID: "h1", Token: "alice", Device: "phone", Level: "master"})
			me := st.me()
			f := d.next(schema.TypeConnected)
			boot, num, ok := f.Session.Parse()
			require.True(t, ok)
			require.Equal(t, me.Boot, boot)
			require.Equal(t, schema.ServerFrame{
				Type: schema.TypeConnected, ID: "h1", Session: f.Session, Node: me.Node, Boot: me.Boot, UID: "alice",
				Device: "phone", Flag: "app", Level: "master", HeartbeatMS: 30_000, MaxBytes: 65_536,
			}, f)
			require.Equal(t, active, st.g.registry.find(num).current())

			d.session = f.Session
			require.Equal(t, schema.PushWritten, st.push(d, "alice", "m1", false))
			got := d.next(schema.TypeRecv)
			require.Equal(t, "m1", got.ID)
			require.Equal(t, schema.UID("bob"), got.From)
			require.JSONEq(t, `{"n":1}`, string(got.Payload))

			require.Equal(t, schema.CodeOK, st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 100, Close: schema.CloseReplaced}))
			require.Nil(t, st.g.registry.find(num))
			require.Equal(t, schema.CloseReplaced, d.code())
			synctest.Wait()
			st.with(func(m *fakeMesh) { require.Empty(t, m.leaves, "the other login's commit comes first") })
			require.Equal(t, schema.OwnerSeq(1), st.g.settled(me))
			time.Sleep(commitWait)
			synctest.Wait()
			st.with(func(m *fakeMesh) {
				require.Equal(t, []schema.Leave{{UID: "alice", Session: num, Seq: 2, Reason: schema.ReasonReplaced}}, m.leaves)
			})
			require.Zero(t, st.g.life.Load().leaves.len())
			require.Equal(t, schema.OwnerSeq(2), st.g.settled(me))
		})
	}
}

func TestHelloLate(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		start := time.Now()
		d := st.dial(schema.JSON)
		require.Equal(t, schema.CloseHelloLate, d.code())
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}
