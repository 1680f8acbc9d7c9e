package mesh_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestEventsLostWithAConnection: an authority's connection ends with an event on its way. Over the next one
// it has those who watch look up again, long before they would by themselves.
func TestEventsLostWithAConnection(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, owner := m.Gateways[0], m.Authorities[0]
		backend := follow(m, 0, "alice", "bob")
		client := one.Login("bob", "d")
		require.NoError(t, client.Watch(t.Context(), "bob"))
		backend.said()
		owner.Link.Lose("event.*.*", 2)
		one.Enter("bob", mesh.As("desk", "web", schema.Slave))
		m.Gateways[1].Enter("alice")
		m.Pass(30 * time.Second)
		require.Empty(t, backend.said())
		require.Len(t, client.Sees("bob").Devices, 1)
		owner.Link.Reset()
		m.Pass(time.Second)
		said := backend.said()
		require.Equal(t, "resync", said[len(said)-1])
		changes := slices.DeleteFunc(said, func(s string) bool { return s == "resync" }) // one each, where their slots are told apart
		require.ElementsMatch(t, []string{"changed alice online 1 ", "changed bob online 2 "}, changes)
		require.Len(t, client.Sees("bob").Devices, 2)
	})
}

// TestWatchNotHeard: as long as the server has not confirmed a watch's subscriptions, events may go by. So
// its users are looked up until it has, and once more then: that ends in a resync.
func TestWatchNotHeard(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		nc, link := m.Server.Dial("watcher")
		var looks atomic.Int32
		look := func(_ context.Context, uids []schema.UID) ([]delivery.Found, error) {
			f := delivery.Found{UID: uids[0], State: schema.Offline, Stamp: schema.Stamp{Fence: 1}}
			if looks.Add(1) > 1 {
				f.State = schema.Online
			}
			return []delivery.Found{f}, nil
		}
		link.Cut()
		told := make(chan string, 10)
		bubble.Go(t, func(ctx context.Context) error {
			for s, err := range delivery.WatchBy(ctx, nc, "", look, []schema.UID{"alice"}) {
				if err != nil {
					return err
				}
				told <- string(s.Kind) + " " + s.State
			}
			return nil
		})
		m.Pass(7 * time.Second)
		require.Len(t, told, 2)
		require.Equal(t, "snapshot offline", <-told)
		require.Equal(t, "changed online", <-told)
		link.Heal()
		m.Pass(5 * time.Second)
		require.Len(t, told, 1)
		require.Equal(t, "resync ", <-told)
		heard := looks.Load()
		m.Pass(time.Minute)
		require.Equal(t, heard, looks.Load())
	})
}
