package delivery_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Without a mesh New does not block, calls say that they do not know, and all ends when closed.
func TestBeforeThereIsAMesh(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("delivery/d-1")
		begun := time.Now()
		d := newDelivery(t, nc)
		require.Equal(t, begun, time.Now())
		found, err := d.Lookup(t.Context(), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, []delivery.Found{{UID: "alice", State: schema.Unknown, Why: client.WhyUnreachable}}, found)
		require.Equal(t, 500*time.Millisecond, time.Since(begun))
		p, err := d.Push(t.Context(), message("m1"), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice unknown false"}, results(p))
		_, err = d.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
		require.ErrorIs(t, err, delivery.ErrUnknownUser)
		_, err = d.Slots(t.Context())
		require.ErrorIs(t, err, schema.ErrUnavailable)

		d.Close()
		_, err = d.Lookup(t.Context(), []schema.UID{"alice"})
		require.ErrorIs(t, err, delivery.ErrClosed)
		_, err = d.Stats(t.Context())
		require.ErrorIs(t, err, delivery.ErrClosed)
	})
}

func TestUnservedMesh(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		nc, _ := s.Dial("other")
		open(t, nc)
		d := newDelivery(t, nc)
		time.Sleep(time.Second)
		found, err := d.Lookup(t.Context(), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, client.WhyUnowned, found[0].Why)
		slots, err := d.Slots(t.Context())
		require.NoError(t, err)
		require.Equal(t, schema.SlotStatus{Slot: 3, State: schema.SlotUnowned}, slots.Slots[3])
		_, err = d.Explain(t.Context(), "alice")
		require.ErrorIs(t, err, client.ErrUnowned)
	})
}

func TestAfterClose(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		m.Close()
		m.Close()
		_, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice"})
		require.ErrorIs(t, err, delivery.ErrClosed)
		require.Empty(t, g.pushed())
	})
}

// An authority that does not answer keeps up what is told of the slots for half a second, no longer, and
// is named.
func TestSlotsOfASilentAuthority(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		m.worker.Cut()
		start := time.Now()
		slots, err := m.Slots(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 600*time.Millisecond)
		require.Equal(t, schema.SlotUnreachable, slots.Slots[3].State)
		require.EqualValues(t, "a-1", slots.Slots[3].Owner)
		require.Equal(t, []schema.NodeID{"a-1"}, slots.Missing)

		m.worker.Heal()
		time.Sleep(time.Second)
		slots, err = m.Slots(t.Context())
		require.NoError(t, err)
		require.Equal(t, schema.SlotReady, slots.Slots[3].State)
		require.Empty(t, slots.Missing)
	})
}

// AwaitFresh waits until somebody takes over the slots of an authority that is gone.
func TestAwaitFresh(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		m.gateway("gw-1")
		m.worker.Cut()
		begun := time.Now()
		found, err := m.Lookup(t.Context(), []schema.UID{"alice"}, delivery.AwaitFresh(3*time.Second))
		require.NoError(t, err)
		require.Equal(t, schema.Unknown, found[0].State)
		require.InDelta(t, 3*time.Second, time.Since(begun), float64(500*time.Millisecond))
		time.AfterFunc(2*time.Second, m.worker.Heal)
		begun = time.Now()
		found, err = m.Lookup(t.Context(), []schema.UID{"alice"}, delivery.AwaitFresh(10*time.Second))
		require.NoError(t, err)
		require.Equal(t, schema.Offline, found[0].State)
		require.InDelta(t, 2*time.Second, time.Since(begun), float64(time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		m.worker.Cut()
		_, err = m.Lookup(ctx, []schema.UID{"alice"}, delivery.AwaitFresh(10*time.Second))
		require.NoError(t, err)
	})
}

func TestMetrics(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		registry := prometheus.NewRegistry()
		nc, _ := m.server.Dial("delivery/d-2")
		d := newDelivery(t, nc, delivery.WithMetrics(registry))
		bubble.Until(t, time.Second, "delivery knows", func() bool {
			p, err := d.Push(t.Context(), message("m1"), []schema.UID{"alice", "bob"})
			return err == nil && p.Users[0].Reached
		})
		families, err := registry.Gather()
		require.NoError(t, err)
		got := map[string]float64{}
		for _, f := range families {
			for _, metric := range f.Metric {
				name := []string{f.GetName()}
				for _, l := range metric.Label {
					name = append(name, l.GetValue())
				}
				got[strings.Join(name, " ")] = metric.GetCounter().GetValue()
			}
		}
		require.EqualValues(t, 1, got["rollcall_delivery_push_routes_total written"])
		require.EqualValues(t, 1, got["rollcall_delivery_lookup_users_total online"])
		require.EqualValues(t, 1, got["rollcall_delivery_lookup_users_total offline"])
		require.NotZero(t, got["rollcall_delivery_lookup_requests_total"])
		require.Contains(t, got, "rollcall_delivery_lookup_seconds")
		require.Contains(t, got, "rollcall_delivery_push_seconds")
	})
}
