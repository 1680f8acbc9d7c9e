package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestConnectFindPushKick(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "phone")
		info := d.ready()

		found := m.find("alice")
		require.Equal(t, schema.Online, found.State)
		require.Len(t, found.Routes, 1)
		r := found.Routes[0]
		require.Equal(t, info.Session, r.Session.Outside(r.Owner.Boot))
		require.Equal(t, schema.Listener("ws"), r.Listener)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m1"))
		bubble.Until(t, time.Second, "message", func() bool { return d.got() == 1 })

		none, err := m.Kick(t.Context(), r.Owner, nil)
		require.NoError(t, err, "it is there")
		require.Empty(t, none)
		data, err := schema.Marshal(&schema.Sessions{To: r.Owner, Limit: 10})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		msg, err := m.nc.RequestWithContext(ctx, subjects.Prefix("").Sessions(r.Owner), data)
		require.NoError(t, err)
		var sessions schema.SessionsAnswer
		require.NoError(t, schema.Unmarshal(msg.Data, &sessions))
		require.Len(t, sessions.Routes, 1)
		require.Equal(t, r.Session, sessions.Routes[0].Session)

		codes, err := m.Kick(t.Context(), r.Owner, []schema.KickEntry{{UID: "alice", Session: r.Session, Fence: found.Target.Fence, Close: schema.CloseRemoved, Why: "go away"}})
		require.NoError(t, err)
		require.Equal(t, []schema.Code{schema.CodeOK}, codes)
		require.Equal(t, schema.CloseRemoved, d.stopped())
		bubble.Until(t, time.Second, "route gone", func() bool { return m.find("alice").State == schema.Offline })
		require.Equal(t, schema.PushNoSession, m.pushOne(r, "m2"))
	})
}
