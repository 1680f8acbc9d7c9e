package mesh_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestWatchesRest: an operator has the watches of clients rest while everything runs. Gateways listen to no
// user any more, and say so; backends see and ask as before. When they go on every client is told how it
// is, also one that was on another gateway before.
func TestWatchesRest(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		stays, moves := one.Login("stays", "d"), two.Login("moves", "d")
		for _, d := range []*mesh.Device{stays, moves} {
			require.NoError(t, d.Watch(t.Context(), "alice", "bob"))
		}
		backend := follow(m, 0, "alice", "bob")
		backend.said()
		listening := m.Server.NATS().NumSubscriptions()
		m.Configure(func(c *schema.Config) { c.WatchOff = true })
		for _, d := range []*mesh.Device{stays, moves} {
			require.Equal(t, schema.WatchedUser{UID: "alice", State: string(schema.Unknown), Reason: string(schema.FrameWatchOff)}, d.Sees("alice"))
		}
		require.Equal(t, listening-4, m.Server.NATS().NumSubscriptions(), "two users on each of two gateways")
		one.Enter("alice")
		require.Equal(t, []string{"changed alice online 1 connect"}, backend.said())
		moves.MoveTo(one)
		moves.Link.Reset()
		m.Pass(time.Minute)
		found, err := m.Lookup(context.Background(), []schema.UID{"alice", "moves"})
		require.NoError(t, err)
		require.Equal(t, schema.Online, found[0].State)
		require.Equal(t, schema.Online, found[1].State, "it is back")
		for _, d := range []*mesh.Device{stays, moves} {
			require.Equal(t, string(schema.FrameWatchOff), d.Sees("alice").Reason)
		}
		m.Configure(func(c *schema.Config) { c.WatchOff = false })
		for _, d := range []*mesh.Device{stays, moves} {
			require.Equal(t, string(schema.Online), d.Sees("alice").State)
			require.Equal(t, string(schema.Offline), d.Sees("bob").State)
		}
		two.Enter("bob")
		m.Pass(time.Second)
		for _, d := range []*mesh.Device{stays, moves} {
			require.Equal(t, string(schema.Online), d.Sees("bob").State)
			require.Equal(t, "connect", d.Sees("bob").Reason)
		}
	})
}
