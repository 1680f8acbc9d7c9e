package authority_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// measured is a worker whose metrics are read.
type measured struct {
	*worker
	registry *prometheus.Registry
}

func startMeasured(t *testing.T, s *bubble.Server, node schema.NodeID) measured {
	t.Helper()
	m := measured{&worker{part: join(t, s, "authority/"+string(node))}, prometheus.NewRegistry()}
	var err error
	m.Worker, err = authority.New(m.nc, m.b, m.view, authority.Config{Node: node, Fresh: true, Metrics: m.registry})
	require.NoError(t, err)
	m.run = bubble.Go(t, m.Run)
	return m
}

// gauge gives a metric by its name and the values of its labels, if it has some.
func (m measured) gauge(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	value, ok := m.find(t, name, labels...)
	require.True(t, ok, "no such metric: %s %v", name, labels)
	return value
}

func (m measured) has(t *testing.T, name string, labels ...string) bool {
	t.Helper()
	_, ok := m.find(t, name, labels...)
	return ok
}

func (m measured) find(t *testing.T, name string, labels ...string) (value float64, ok bool) {
	t.Helper()
	families, err := m.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var values []string
			for _, l := range one.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == "rollcall_authority_"+name && strings.Join(values, " ") == strings.Join(labels, " ") {
				return one.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

// What an operator has to see while a worker is cut off and another takes its slots over.
func TestGaugesTellOfALeaseAndOfARebuild(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startMeasured(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		bubble.Until(t, time.Second, "all is ready", func() bool { return first.gauge(t, "slots", "ready") == schema.Slots })
		require.Zero(t, first.gauge(t, "slots", "rebuilding"))
		require.Zero(t, first.gauge(t, "syncs_awaited"))
		require.Zero(t, first.gauge(t, "suspect"))
		require.LessOrEqual(t, first.gauge(t, "renewal_age_seconds"), 3.1)
		seven, _ := g.view.Target(7)
		require.EqualValues(t, seven.Fence, first.gauge(t, "slot_fence", "7"))
		require.LessOrEqual(t, first.gauge(t, "slot_moved_timestamp_seconds", "claimed"), float64(time.Now().Unix()))

		first.link.Cut()
		time.Sleep(25 * time.Second)
		require.EqualValues(t, 1, first.gauge(t, "suspect"))
		require.Greater(t, first.gauge(t, "renewal_age_seconds"), 20.0)

		second := startMeasured(t, s, "a-2")
		bubble.Until(t, time.Minute, "the other has the slots", func() bool { return second.gauge(t, "syncs_awaited") == schema.Slots })
		require.EqualValues(t, schema.Slots, second.gauge(t, "slots", "rebuilding"))
		require.Zero(t, second.gauge(t, "slots", "ready"))
		target, err := g.Target(t.Context(), 7)
		require.NoError(t, err)
		_, err = g.Sync(t.Context(), target, g.me, true, nil)
		require.NoError(t, err)
		require.EqualValues(t, schema.Slots-1, second.gauge(t, "syncs_awaited"))
		require.EqualValues(t, 1, second.gauge(t, "slots", "ready"))
		require.EqualValues(t, target.Fence, second.gauge(t, "slot_fence", "7"))
		require.Greater(t, target.Fence, seven.Fence)
		taken := second.gauge(t, "slot_moved_timestamp_seconds", "claimed")
		require.Greater(t, taken, first.gauge(t, "slot_moved_timestamp_seconds", "claimed")+25)
		require.False(t, second.has(t, "slot_moved_timestamp_seconds", "handed"))

		require.NoError(t, second.run.Stop())
		require.Equal(t, math.Inf(1), second.gauge(t, "renewal_age_seconds"))
		require.EqualValues(t, 1, second.gauge(t, "suspect"))
		require.False(t, second.has(t, "slot_fence", "7"), "it holds it no more")
		require.GreaterOrEqual(t, second.gauge(t, "slot_moved_timestamp_seconds", "life_ended"), taken)
	})
}
