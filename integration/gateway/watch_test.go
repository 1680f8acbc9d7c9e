package gateway_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestWatch follows a user from one gateway who comes and goes on the other, while events are lost
// and the authority is replaced.
func TestWatch(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s)
		first := startAuthority(t, s, "a-1")
		g1, g2 := startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")
		alice := g1.login(t, "alice", "d1")
		require.NoError(t, alice.Watch(t.Context(), "bob", "eve"))
		shows := func(within time.Duration, state schema.UserState, devices int) {
			t.Helper()
			bubble.Until(t, within, string(state), func() bool {
				u := alice.sees("bob")
				return u.State == string(state) && len(u.Devices) == devices
			})
		}
		shows(time.Second, schema.Offline, 0)
		require.Equal(t, string(schema.Offline), alice.sees("eve").State)
		bob := g2.login(t, "bob", "phone")
		shows(time.Second, schema.Online, 1)
		require.Equal(t, "connect", alice.sees("bob").Reason)
		web := g2.login(t, "bob", "")
		shows(time.Second, schema.Online, 2)
		require.NoError(t, web.run.Stop())
		shows(10*time.Second, schema.Online, 1)

		g1.push.LoseIn("event.>", 1)
		require.NoError(t, bob.run.Stop())
		time.Sleep(10 * time.Second)
		require.Equal(t, schema.Offline, m.find("bob").State)
		require.Equal(t, string(schema.Online), alice.sees("bob").State, "the event was lost")
		g1.push.Reset()
		shows(5*time.Second, schema.Offline, 0)

		bob = g2.login(t, "bob", "phone")
		shows(time.Second, schema.Online, 1)
		require.NoError(t, first.run.Stop())
		time.Sleep(2 * time.Second)
		require.Equal(t, string(schema.Online), alice.sees("bob").State, "no transition for a failover")
		startAuthority(t, s, "a-2")
		time.Sleep(15 * time.Second)
		shows(time.Second, schema.Online, 1)
		require.NoError(t, bob.run.Stop())
		shows(10*time.Second, schema.Offline, 0)
	})
}
