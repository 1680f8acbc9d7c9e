package mesh_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// embedded is a Delivery inside the first gateway's process, with a count of what it sends.
type embedded struct {
	*delivery.Delivery
	m               *mesh.Mesh
	metrics         *prometheus.Registry
	pushes, lookups atomic.Int32
}

func embed(t *testing.T, m *mesh.Mesh) *embedded {
	nc, _ := m.Server.Dial("delivery/embedded")
	e := &embedded{m: m, metrics: prometheus.NewRegistry()}
	var err error
	e.Delivery, err = delivery.New(nc, delivery.WithLocal(m.Gateways[0].Gateway), delivery.WithMetrics(e.metrics))
	require.NoError(t, err)
	t.Cleanup(e.Close)
	for subject, n := range map[string]*atomic.Int32{"push.>": &e.pushes, "authority.*.*.lookup": &e.lookups} {
		_, err := m.Outsider.Subscribe(subject, func(*nats.Msg) { n.Add(1) })
		require.NoError(t, err)
	}
	require.NoError(t, m.Outsider.Flush())
	m.Await(5*time.Second, "the mesh is known", func() bool {
		found, err := e.Lookup(t.Context(), []schema.UID{"nobody"})
		return err == nil && found[0].State == schema.Offline
	})
	return e
}

// push pushes and gives the lines, and how many messages that took.
func (e *embedded) push(users []schema.UID, options ...delivery.CallOption) (lines []string, pushes, lookups int32) {
	e.m.T.Helper()
	e.m.Pass(10 * time.Millisecond)
	e.pushes.Store(0)
	e.lookups.Store(0)
	p, err := e.Push(context.Background(), delivery.Message{ID: "m", From: "sender", Payload: json.RawMessage(`1`)}, users, options...)
	require.NoError(e.m.T, err)
	e.m.Pass(10 * time.Millisecond)
	return pushed{Pushed: p}.lines(), e.pushes.Load(), e.lookups.Load()
}

// counted gives what of a metric was counted, by its label's value.
func (e *embedded) counted(name string) map[string]float64 {
	families, err := e.metrics.Gather()
	require.NoError(e.m.T, err)
	by := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if f.GetName() == "rollcall_delivery_"+name {
				label := ""
				for _, l := range metric.GetLabel() {
					label = l.GetValue()
				}
				by[label] = metric.GetCounter().GetValue()
			}
		}
	}
	return by
}

func withLocal(c *gateway.Config) { c.Local = true }

// TestLocalPush: what is for a device of this process needs no NATS message, and all else is as ever.
func TestLocalPush(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateway: withLocal}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		phone := one.Enter("alice", mesh.As("phone", "app", schema.Master))
		tablet := one.Enter("alice", mesh.As("phone", "web", schema.Slave)) // the same id, another flag
		one.Enter("alice", mesh.As("", "tv", schema.Slave))
		two.Enter("bob", mesh.As("phone", "app", schema.Master))
		e := embed(t, m)
		toPhone := []delivery.CallOption{delivery.ToDevice("phone"), delivery.ToFlag("app")}
		for name, c := range map[string]struct {
			users           []schema.UID
			options         []delivery.CallOption
			lines           []string
			pushes, lookups int32
		}{
			"device and flag":      {[]schema.UID{"alice"}, toPhone, []string{"alice true written"}, 0, 0},
			"twice":                {[]schema.UID{"alice", "alice"}, toPhone, []string{"alice true written", "alice true written"}, 0, 0},
			"flag left open":       {[]schema.UID{"alice"}, []delivery.CallOption{delivery.ToDevice("phone")}, []string{"alice true written written"}, 0, 1},
			"all devices":          {[]schema.UID{"alice"}, nil, []string{"alice true written written written"}, 0, 1},
			"another gateway":      {[]schema.UID{"bob"}, toPhone, []string{"bob true written"}, 1, 1},
			"both":                 {[]schema.UID{"bob", "alice", "nobody"}, toPhone, []string{"bob true written", "alice true written", "nobody false"}, 1, 1},
			"another device of it": {[]schema.UID{"alice"}, []delivery.CallOption{delivery.ToDevice("watch"), delivery.ToFlag("app")}, []string{"alice false"}, 0, 1},
		} {
			lines, pushes, lookups := e.push(c.users, c.options...)
			require.Equal(t, c.lines, lines, name)
			require.Equal(t, c.pushes, pushes, name)
			require.Equal(t, min(c.lookups, 1), min(lookups, 1), name)
		}
		require.Equal(t, map[string]float64{"local": 8, "remote": 2}, e.counted("push_recipients_total"))
		require.Equal(t, map[string]float64{"": 4}, e.counted("push_found_locally_total"))
		require.Equal(t, 5, phone.Got("m"))
		require.Equal(t, 2, tablet.Got("m"))

		own, _ := phone.Current()
		boot, _, _ := own.Parse()
		lines, _, lookups := e.push([]schema.UID{"alice"}, append(toPhone, delivery.Except(schema.Except{UID: "alice", Node: "gw-1", Boot: boot, Session: own}))...)
		require.Equal(t, []string{"alice false"}, lines, "its own session is skipped here too")
		require.Zero(t, lookups)
		go func() { m.Pass(time.Second); acks(phone, "ack") }()
		begun := time.Now()
		p, err := e.Push(t.Context(), delivery.Message{ID: "ack", Payload: json.RawMessage(`1`)}, []schema.UID{"alice"}, append(toPhone, delivery.AckWait(5*time.Second))...)
		require.NoError(t, err)
		require.Equal(t, []string{"alice true acked"}, pushed{Pushed: p}.lines())
		require.InDelta(t, 1, time.Since(begun).Seconds(), 0.1)

		phone.Leave()
		lines, _, lookups = e.push([]schema.UID{"alice"}, toPhone...)
		require.Equal(t, []string{"alice false"}, lines)
		require.NotZero(t, lookups, "it is not here: somebody else has to say where it is")
	})
}

// TestLocalPushIsSure: the gateway answers for a device only while nobody else can know better.
func TestLocalPushIsSure(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		mesh.Run(t, mesh.Options{Gateway: withLocal, Config: func(c *schema.Config) { c.Policy = "single" }}, func(t *testing.T, m *mesh.Mesh) {
			m.Gateways[0].Enter("alice", mesh.As("phone", "app", schema.Master))
			e := embed(t, m)
			_, pushes, lookups := e.push([]schema.UID{"alice"}, delivery.ToDevice("phone"))
			require.Zero(t, pushes+lookups, "the policy makes it unique")
		})
	})
	t.Run("moved away", func(t *testing.T) {
		mesh.Run(t, mesh.Options{Gateway: withLocal}, func(t *testing.T, m *mesh.Mesh) {
			old := m.Gateways[0].Enter("alice", mesh.As("phone", "app", schema.Master))
			e := embed(t, m)
			now := m.Gateways[1].Enter("alice", mesh.As("phone", "app", schema.Master))
			lines, pushes, _ := e.push([]schema.UID{"alice"}, delivery.ToDevice("phone"), delivery.ToFlag("app"))
			require.Equal(t, []string{"alice true written"}, lines)
			require.EqualValues(t, 1, pushes)
			require.Equal(t, 1, now.Got("m"))
			require.Zero(t, old.Got("m"))
		})
	})
	t.Run("cut off", func(t *testing.T) {
		mesh.Run(t, mesh.Options{Gateway: withLocal, Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
			m.Gateways[0].Enter("alice", mesh.As("phone", "app", schema.Master))
			e := embed(t, m)
			found := func() bool {
				_, _, ok := m.Gateways[0].Find("alice", "phone", "app")
				return ok
			}
			m.Await(time.Minute, "shares are even and synced", found)
			m.Gateways[0].Cut()
			m.Await(25*time.Second, "its lease is not proven any more", func() bool { return !found() })
			m.Gateways[0].Heal()
			m.Await(time.Minute, "it is again", found)
			lines, pushes, lookups := e.push([]schema.UID{"alice"}, delivery.ToDevice("phone"), delivery.ToFlag("app"))
			require.Equal(t, []string{"alice true written"}, lines)
			require.Zero(t, pushes+lookups)
		})
	})
}
