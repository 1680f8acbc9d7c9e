package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestSessions(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		list := func(req schema.Sessions) schema.SessionsAnswer {
			var answer schema.SessionsAnswer
			st.g.listSessions(st.g.life.Load(), &req, &answer)
			return answer
		}
		require.Empty(t, list(schema.Sessions{Limit: 10}).Routes)
		a, b, c := st.hello("alice", "1"), st.hello("bob", "2"), st.hello("carol", "3")
		pass(20 * time.Second)
		first := list(schema.Sessions{Limit: 2})
		require.Len(t, first.Routes, 2)
		require.Equal(t, schema.UID("alice"), first.Routes[0].UID)
		require.Equal(t, 20*time.Second, first.Routes[0].Age)
		require.Equal(t, 70*time.Second, first.Routes[0].TTL)
		require.Equal(t, st.seqOf(first.Routes[0].Session), first.Routes[0].Seq)
		second := list(schema.Sessions{Limit: 2, After: first.Next})
		require.Len(t, second.Routes, 1)
		require.Equal(t, schema.UID("carol"), second.Routes[0].UID)
		require.Zero(t, second.Next)

		_, num, _ := b.session.Parse()
		only := list(schema.Sessions{Only: num})
		require.Len(t, only.Routes, 1)
		require.Equal(t, schema.DeviceID("2"), only.Routes[0].Device)
		b.ws.CloseNow()
		pass(time.Second)
		require.Empty(t, list(schema.Sessions{Only: num}).Routes)
		require.Len(t, list(schema.Sessions{}).Routes, 1, "a page has at least one")
		a.ws.CloseNow()
		c.ws.CloseNow()
	})
}
