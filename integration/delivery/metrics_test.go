package delivery_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// counted is a Delivery beside the mesh's own, whose metrics are read.
type counted struct {
	*delivery.Delivery
	t        *testing.T
	registry *prometheus.Registry
}

func (m *mesh) counted() *counted {
	m.t.Helper()
	nc, _ := m.server.Dial("delivery/d-2")
	c := &counted{t: m.t, registry: prometheus.NewRegistry()}
	c.Delivery = newDelivery(m.t, nc, delivery.WithMetrics(c.registry))
	bubble.Until(m.t, time.Second, "delivery knows", func() bool {
		found, err := c.Lookup(m.t.Context(), []schema.UID{"alice"})
		return err == nil && found[0].State == schema.Online
	})
	return c
}

// metric gives a counter or a gauge by its name and the values of its labels; 0 where there is none yet.
func (c *counted) metric(name string, labels ...string) int {
	c.t.Helper()
	families, err := c.registry.Gather()
	require.NoError(c.t, err)
	for _, f := range families {
		for _, one := range f.Metric {
			var values []string
			for _, l := range one.Label {
				values = append(values, l.GetValue())
			}
			if f.GetName() == "rollcall_delivery_"+name && strings.Join(values, " ") == strings.Join(labels, " ") {
				return int(one.GetCounter().GetValue() + one.GetGauge().GetValue())
			}
		}
	}
	return 0
}

// What becomes of calls is counted, whichever way they came, and what was none by its own.
func TestCallsAreCounted(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		c := m.counted()
		s := delivery.NewService(c.Delivery, delivery.ServiceConfig{Workers: 1})
		h, err := s.Handler([]string{oneKey, otherKey})
		require.NoError(t, err)
		p := &posts{t, h}
		bubble.Go(t, s.Run)
		nc, _ := m.server.Dial("backend")
		b := &backend{t, nc}
		bubble.Until(t, time.Second, "the service answers", func() bool {
			_, err := b.ask("presence.stats", "")
			return err == nil
		})
		require.Contains(t, b.call("lookup", `{"uids":["alice"]}`), `"online"`)
		status, _ := p.call("lookup", `{"uids":["alice"]}`)
		require.Equal(t, 200, status)
		require.Equal(t, 2, c.metric("calls_total", "lookup", "200"), "labels are call and code")
		status, _ = p.call("lookup", `{`)
		require.Equal(t, 400, status)
		require.Contains(t, b.call("kick", `{}`), "400 ")
		require.Equal(t, 1, c.metric("calls_total", "lookup", "400"))
		require.Equal(t, 1, c.metric("calls_total", "kick", "400"))
		require.Zero(t, c.metric("calls_under_way"))

		g.set(func(g *gateway) { g.silent = true })
		slow := make(chan string)
		go func() { slow <- b.call("push", `{"uids":["alice"],"payload":1}`) }()
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, c.metric("calls_under_way"))
		require.Contains(t, b.call("lookup", `{"uids":["alice"]}`), "429 ")
		require.Equal(t, 1, c.metric("calls_total", "lookup", "429"))
		require.Equal(t, 401, p.do("POST", "/v1/lookup", "Bearer nobody's key, this", "", "{}").StatusCode)
		require.Equal(t, 1, c.metric("api_refused_total", "401"))
		<-slow
		require.Equal(t, 1, c.metric("calls_total", "push", "200"))
		require.Zero(t, c.metric("calls_under_way"))
	})
}

// Of a gateway that does not answer 1,024 messages may wait; one more is not sent, and counted.
func TestAFullLaneIsCounted(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		c := m.counted()
		g.set(func(g *gateway) { g.silent = true })
		var pushes sync.WaitGroup
		for range 1 + 1024 {
			pushes.Go(func() { _, _ = c.Push(t.Context(), message(""), []schema.UID{"alice"}) })
			synctest.Wait()
		}
		require.Zero(t, c.metric("lane_full_total", "push"))
		p, err := c.Push(t.Context(), message(""), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, schema.PushUnknown, p.Users[0].Routes[0].Result)
		require.Equal(t, 1, c.metric("lane_full_total", "push"))
		g.set(func(g *gateway) { g.silent = false })
		pushes.Wait()
	})
}
