package delivery_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// caching is a Delivery with a cache, and a count of the look-ups that authorities hear of.
type caching struct {
	*delivery.Delivery
	t       *testing.T
	link    *bubble.Link
	metrics *prometheus.Registry
	lookups atomic.Int32
}

func (m *mesh) caching(users int) *caching {
	t := m.t
	t.Helper()
	c := &caching{t: t, metrics: prometheus.NewRegistry()}
	nc, link := m.server.Dial("delivery/cached")
	c.link = link
	c.Delivery = newDelivery(t, nc, delivery.WithCache(users), delivery.WithMetrics(c.metrics))
	spy, _ := m.server.Dial("spy")
	_, err := spy.Subscribe("authority.*.*.lookup", func(*nats.Msg) { c.lookups.Add(1) })
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	bubble.Until(t, 5*time.Second, "the cache works", func() bool {
		c.devices("warm")
		return c.asked(func() { c.devices("warm") }) == 0
	})
	return c
}

// devices gives the devices of a user, in the order told.
func (c *caching) devices(uid schema.UID, options ...delivery.CallOption) string {
	c.t.Helper()
	found, err := c.Lookup(c.t.Context(), []schema.UID{uid}, options...)
	require.NoError(c.t, err)
	var list strings.Builder
	list.WriteString(string(found[0].State))
	for _, r := range found[0].Routes {
		list.WriteString(" " + string(r.Device))
	}
	return list.String()
}

// asked gives how many look-ups something takes.
func (c *caching) asked(act func()) int32 {
	time.Sleep(time.Millisecond) // the spy hears by itself, also of what was asked before
	before := c.lookups.Load()
	act()
	time.Sleep(time.Millisecond)
	return c.lookups.Load() - before
}

// counted gives a counter, by its label's value.
func (c *caching) counted(name, label string) (n float64) {
	families, err := c.metrics.Gather()
	require.NoError(c.t, err)
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if f.GetName() == "rollcall_delivery_"+name && metric.GetLabel()[0].GetValue() == label {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestCacheAnswersForASecond(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		c := m.caching(100)
		begun, asked := time.Now(), int32(0)
		for time.Since(begun) < 3500*time.Millisecond {
			asked += c.asked(func() { require.Equal(t, "online phone", c.devices("alice")) })
			time.Sleep(9 * time.Millisecond)
		}
		require.EqualValues(t, 4, asked)
		require.Zero(t, c.asked(func() {
			p, err := c.Push(t.Context(), message("m1"), []schema.UID{"alice", "alice"})
			require.NoError(t, err)
			require.Equal(t, []string{"alice online true gw-1:written", "alice online true gw-1:written"}, results(p))
		}))
		require.Len(t, g.pushed(), 1)
		require.EqualValues(t, 1, c.asked(func() { c.devices("alice", delivery.AwaitFresh(time.Second)) }), "asked for what is fresh")
		require.EqualValues(t, 1, c.asked(func() {
			kicked, err := c.Kick(t.Context(), delivery.KickRequest{UID: "alice", Device: "none"})
			require.NoError(t, err)
			require.Empty(t, kicked)
		}))
		require.EqualValues(t, 1, c.asked(func() { c.devices("alice") }), "after a kick")
		require.EqualValues(t, 1, c.counted("cache_drops_total", "kicked"))
		require.NotZero(t, c.counted("cache_drops_total", "aged"))
		require.NotZero(t, c.counted("cache_lookup_users_total", "hit"))
	})
}

// What happens to a user is known as soon as its event is here, and a second later where that is lost.
func TestCacheHearsOfEvents(t *testing.T) {
	for name, late := range map[string]time.Duration{"heard": time.Millisecond, "lost": time.Second} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				g := m.gateway("gw-1")
				c := m.caching(100)
				time.Sleep(2 * time.Second)
				if name == "lost" {
					c.link.LoseIn("event.>", -1)
				}
				require.Equal(t, "offline", c.devices("alice"))
				begun := time.Now()
				g.login(t, "alice", "phone", "app")
				for time.Since(begun) < late-2*time.Millisecond {
					require.Equal(t, "offline", c.devices("alice"))
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Until(begun.Add(late)))
				require.Equal(t, "online phone", c.devices("alice"))
				if name == "lost" {
					return
				}
				g.login(t, "alice", "tab", "app")
				time.Sleep(time.Millisecond)
				require.Equal(t, "online tab phone", c.devices("alice"))
				require.EqualValues(t, 2, c.counted("cache_drops_total", "event"))
			})
		})
	}
}

// An event that overtakes the answer which it contradicts makes that not be kept.
func TestCacheHearsOfEventsDuringALookup(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		c := m.caching(100)
		time.Sleep(2 * time.Second)
		m.worker.Delay("_INBOX.>", 1, 100*time.Millisecond) // the answer is on its way
		done := make(chan string)
		go func() { done <- c.devices("alice") }()
		time.Sleep(10 * time.Millisecond)
		g.login(t, "alice", "phone", "app")
		require.Equal(t, "offline", <-done, "as it was when asked")
		require.Equal(t, "online phone", c.devices("alice"))
	})
}

// Where events may have gone by, nothing is believed that was kept before.
func TestCacheForgetsWhenEventsMayBeLost(t *testing.T) {
	for name, lose := range map[string]func(m *mesh, c *caching){
		"reconnect": func(m *mesh, c *caching) {
			c.link.Reset()
			time.Sleep(200 * time.Millisecond)
		},
		"rebuilt": func(m *mesh, c *caching) {
			nc, _ := m.server.Dial("forger")
			slot := subjects.SlotOf("alice")
			require.NoError(m.t, nc.Publish(subjects.Prefix("").SlotEvent(slot), fmt.Appendf(nil, `{"type":"rebuilt","slot":%d,"stamp":[1,1]}`, slot)))
			require.NoError(m.t, nc.Flush())
			time.Sleep(time.Millisecond)
		},
		"unreadable": func(m *mesh, c *caching) {
			nc, _ := m.server.Dial("forger")
			require.NoError(m.t, nc.Publish("event.17", []byte("?")))
			require.NoError(m.t, nc.Flush())
			time.Sleep(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				c := m.caching(100)
				c.devices("alice")
				require.Zero(t, c.asked(func() { c.devices("alice") }))
				lose(m, c)
				require.EqualValues(t, 1, c.asked(func() { c.devices("alice") }))
			})
		})
	}
}

// While the mesh is cut off, the cache tells nothing that it could not know.
func TestCacheWithoutAConnection(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		c := m.caching(100)
		require.Equal(t, "offline", c.devices("alice"))
		m.server.Stop()
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, "unknown", c.devices("alice"))
		m.server.Start()
		bubble.Until(t, 20*time.Second, "it works again", func() bool { return c.devices("alice") == "offline" })
	})
}

// A push that the cache has misled finds the user where a new look-up says, within the same call.
func TestPushIsNotMisledByTheCache(t *testing.T) {
	for name, tc := range map[string]struct {
		move func(t *testing.T, g1 *gateway, old schema.Route)
		want string
	}{
		"session closed": {func(t *testing.T, g1 *gateway, old schema.Route) {
			g1.set(func(g *gateway) {
				g.result = func(*schema.PushFrame, schema.Recipient) schema.PushResult { return schema.PushNoSession }
			})
			g1.leave(t, old)
		}, "alice online true gw-2:written gw-2:written"},
		"gateway gone": {func(_ *testing.T, g1 *gateway, _ schema.Route) {
			g1.link.Cut()
			g1.link.Reset()
		}, "alice online true gw-1:owner_gone gw-2:written gw-2:written"}, // until its key ends
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
				old := g1.login(t, "alice", "phone", "app")
				g2.login(t, "alice", "web", "web")
				c := m.caching(100)
				c.link.LoseIn("event.>", -1)
				time.Sleep(2 * time.Second)
				require.Equal(t, "online web phone", c.devices("alice"))
				tc.move(t, g1, old)
				g2.login(t, "alice", "desk", "desktop")
				p, err := c.Push(t.Context(), message("m1"), []schema.UID{"alice", "nobody", "alice"})
				require.NoError(t, err)
				got := results(p)
				require.ElementsMatch(t, strings.Fields(tc.want), strings.Fields(got[0]))
				require.Equal(t, []string{got[0], "nobody offline false", got[0]}, got)
				require.Equal(t, []string{"m1>alice#1", "m1>alice#2"}, g2.pushed(), "each session once")
				require.EqualValues(t, 1, c.counted("cache_drops_total", "refused"))
			})
		})
	}
}

// A gateway that says nothing holds up nobody whom the cache has misled, nor a session being set up.
func TestSilentGatewayHoldsUpNoSecondTry(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		g1.login(t, "alice", "phone", "app")
		g2.login(t, "bob", "phone", "app")
		begun := time.Now()
		g1.set(func(g *gateway) { g.silent = true })
		g2.set(func(g *gateway) {
			g.result = func(*schema.PushFrame, schema.Recipient) schema.PushResult {
				if time.Since(begun) < 50*time.Millisecond {
					return schema.PushPending
				}
				return schema.PushWritten
			}
		})
		p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice", "bob"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice online false gw-1:unknown", "bob online true gw-2:written"}, results(p))
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.Len(t, g2.pushed(), 4, "at 0, 10, 30 and 70 ms, not behind the other")
	})
}

// leave ends a session, and the authority knows of it.
func (g *gateway) leave(t *testing.T, r schema.Route) {
	t.Helper()
	g.mu.Lock()
	g.seq++
	e := schema.Leave{UID: r.UID, Session: r.Session, Seq: g.seq, Reason: schema.ReasonLeave}
	g.mu.Unlock()
	target, err := g.client.Target(t.Context(), subjects.SlotOf(r.UID))
	require.NoError(t, err)
	codes, err := g.client.Unregister(t.Context(), target, g.me, []schema.Leave{e})
	require.NoError(t, err)
	require.Equal(t, []schema.Code{schema.CodeOK}, codes)
}
