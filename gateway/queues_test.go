package gateway

import (
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// An alert on the first drop, refusal or close needs the 0 before it.
func TestCountersBeginAtZero(t *testing.T) {
	bus, view := new(fakeBus), newFakeView()
	st := &stage{t: t, g: newGateway(bus, bus, view, Config{Node: "gw-1", Auth: Insecure{}}.withDefaults())}
	st.g.holder = newFakeHolder()
	for name, label := range map[string]string{"drops_total": "queue_full", "refused_total": "handshake", "closes_total": "3006", "logins_total": "superseded"} {
		require.Zero(t, st.metric(name, label), name)
	}
}

// Each queue has its own gauge: which one stands tells what is wedged.
func TestEachQueueIsMeasured(t *testing.T) {
	bus, view := new(fakeBus), newFakeView()
	g := newGateway(bus, bus, view, Config{Node: "gw-1", Auth: Insecure{}}.withDefaults())
	holder := newFakeHolder()
	g.holder = holder
	st := &stage{t: t, g: g}
	require.True(t, math.IsInf(st.metric("renewal_age_seconds", ""), 1))
	holder.renewed = time.Now().Add(-time.Minute)
	require.InDelta(t, 60, st.metric("renewal_age_seconds", ""), 30)

	l := g.newLife(t.Context(), schema.Process{Node: "gw-1", Boot: schema.NewBoot()})
	g.life.Store(l)
	queues := map[string]chan *nats.Msg{
		"push": l.pushes.Queue, "kick": l.kicks.Queue, "revoke": l.revokes.Queue, "ask": l.asks.Queue, "event": g.watches.events,
	}
	n := 0
	for _, queue := range queues {
		for n++; len(queue) < n; {
			queue <- &nats.Msg{}
		}
	}
	for name, queue := range queues {
		require.EqualValues(t, len(queue), st.metric("queue_depth", name), name)
	}
	require.Zero(t, st.metric("queue_depth", "unregister"))
	require.Zero(t, st.metric("queue_depth", "repeated_kick"))
}
