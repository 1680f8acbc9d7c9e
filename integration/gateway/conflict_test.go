package gateway_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// events gives what is published of a uid from now on.
func (m *mesh) events(uid schema.UID) <-chan schema.Event {
	m.t.Helper()
	out := make(chan schema.Event, 1024)
	sub, err := m.nc.Subscribe(subjects.Prefix("").Event(uid), func(msg *nats.Msg) {
		var e schema.Event
		if json.Unmarshal(msg.Data, &e) == nil {
			out <- e
		}
	})
	require.NoError(m.t, err)
	require.NoError(m.t, m.nc.FlushTimeout(time.Second))
	m.t.Cleanup(func() { sub.Unsubscribe() })
	return out
}

// TestReplacedAndKicked logs the same device in twice, and another of its flag, on one gateway and
// across two: the old one goes with the code documented, the new one alone is visible, and nobody
// sees the user offline in between.
func TestReplacedAndKicked(t *testing.T) {
	for name, second := range map[string]struct {
		gateway int
		device  schema.DeviceID
		code    schema.CloseCode
	}{
		"replaced here":  {0, "d1", schema.CloseReplaced},
		"replaced there": {1, "d1", schema.CloseReplaced},
		"kicked here":    {0, "d2", schema.CloseKicked},
		"kicked there":   {1, "d2", schema.CloseKicked},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				m := newMesh(t, s, "a-1")
				gates := []*gate{startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")}
				master := func(c *client.Config) { c.Level = schema.Master }
				a := gates[0].login(t, "alice", "d1", master)
				time.Sleep(time.Second)
				events := m.events("alice")
				start := time.Now()
				b := gates[second.gateway].login(t, "alice", second.device, master)
				require.Less(t, time.Since(start), 500*time.Millisecond)
				require.Equal(t, second.code, a.stopped())
				time.Sleep(10 * time.Second)
				routes := m.find("alice").Routes
				require.Len(t, routes, 1)
				require.Equal(t, b.ready().Session, routes[0].Session.Outside(routes[0].Owner.Boot))
				var types []schema.EventType
				for len(events) > 0 {
					types = append(types, (<-events).Type)
				}
				require.Equal(t, []schema.EventType{schema.EventRemoved, schema.EventAdded}, types)
			})
		})
	}
}

// TestGatewayGone ends a gateway without a word, that holds a session of the device that logs in:
// the login waits no longer than two seconds, and the old session is not seen again.
func TestGatewayGone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g1, g2 := startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")
		old := g1.login(t, "alice", "d1")
		g1.link.Cut()
		g1.push.Cut()
		start := time.Now()
		now := g2.login(t, "alice", "d1")
		require.Less(t, time.Since(start), 2500*time.Millisecond)
		want := now.ready().Session
		sees := func() schema.SessionID {
			r := m.find("alice").Routes
			require.Len(t, r, 1)
			return r[0].Session.Outside(r[0].Owner.Boot)
		}
		require.Equal(t, want, sees())
		time.Sleep(5 * time.Second)
		require.Equal(t, want, sees())
		g1.link.Heal()
		g1.push.Heal()
		require.Equal(t, schema.CloseReplaced, old.stopped(), "the kick is repeated until its gateway answers")
		time.Sleep(10 * time.Second)
		require.Equal(t, want, sees())
	})
}

// TestRace logs one device in on two gateways at the same instant, many times: one is left, and
// each login is either in or told to come back.
func TestRace(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		const pairs = 50
		m := newMesh(t, s, "a-1")
		gates := []*gate{startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")}
		var devices [pairs][2]*device
		uid := func(i int) schema.UID { return schema.UID("u" + string(rune('0'+i%10)) + string(rune('0'+i/10))) }
		for i := range devices {
			for side, g := range gates {
				devices[i][side] = g.connect(t, uid(i), "d1")
			}
		}
		time.Sleep(20 * time.Second)
		for i := range devices {
			routes := m.find(uid(i)).Routes
			require.Len(t, routes, 1, "pair %d", i)
			left := 0
			for _, d := range devices[i] {
				if info, ok := d.Session(); ok {
					left++
					require.Equal(t, info.Session, routes[0].Session.Outside(routes[0].Owner.Boot))
					continue
				}
				require.Equal(t, schema.CloseReplaced, d.stopped())
			}
			require.Equal(t, 1, left)
		}
	})
}
