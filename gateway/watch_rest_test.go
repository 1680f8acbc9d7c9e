package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// rest has all watches rest, or go on, as `rollcall setup --watch` does.
func (st *stage) rest(off bool) { st.configure(func(c *schema.Config) { c.WatchOff = off }) }

// sees gives a device's next presence frame, a line a user: its state and devices, and the reason where
// that is of the gateway.
func (d *device) sees() (lines []string) {
	d.t.Helper()
	for _, u := range d.next(schema.TypePresence).Users {
		line := string(u.UID) + " " + names(u)
		if u.Reason == atRest {
			line += " " + u.Reason
		}
		lines = append(lines, line)
	}
	return lines
}

// TestWatchesRest: while the settings say so clients hear of nobody, and know why; nothing is looked up
// for them. Then they are told how it is, whether they watched before, or began meanwhile.
func TestWatchesRest(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		found := map[schema.UID]client.Found{"bob": onlineAs("p1")}
		lookups := st.directory(found)
		a, b := st.hello("alice", "d1"), st.hello("carol", "d1")
		a.watch("bob", "eve")
		before := *lookups
		st.rest(true)
		require.ElementsMatch(t, []string{"bob unknown watch_off", "eve unknown watch_off"}, a.sees())
		require.Equal(t, 1.0, st.metric("watches_rest", ""))
		require.Equal(t, "unknown", names(b.watch("bob")[0]))
		st.event(schema.EventAdded, "bob", 6, 1, "p2")
		st.rebuilt("bob", 100)
		pass(2 * client.LookAtAll)
		require.Empty(t, a.frames)
		require.Empty(t, b.frames)
		require.Equal(t, before, *lookups)

		subscriptions := st.subscribed()
		st.with(func(*fakeMesh) {
			later := onlineAs("p1", "p2")
			later.Stamp = stamp(100, 6)
			found["bob"] = later
		})
		start := time.Now()
		st.rest(false)
		require.ElementsMatch(t, []string{"bob online p1 p2", "eve offline"}, a.sees())
		require.Equal(t, []string{"bob online p1 p2"}, b.sees())
		require.LessOrEqual(t, time.Since(start), 2*tellEvery)
		require.Equal(t, subscriptions+2, st.subscribed())
		require.Zero(t, st.metric("watches_rest", ""))
		st.event(schema.EventRemoved, "bob", 7, 0, "p1")
		require.Equal(t, []string{"bob online p2"}, a.sees())
		require.Equal(t, []string{"bob online p2"}, b.sees())
		a.ws.CloseNow()
		b.ws.CloseNow()
		st.nobodyWatches()
	})
}

// TestWatchesRestFromTheStart: the settings were so before the gateway began.
func TestWatchesRestFromTheStart(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.rest(true)
		pass(0)
		d := st.hello("alice", "d1")
		d.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob"}})
		d.next(schema.TypeOK)
		require.Equal(t, []string{"bob unknown watch_off"}, d.sees())
		d.send(schema.ClientFrame{Type: schema.TypeUnwatch, UIDs: []schema.UID{"bob"}})
		d.next(schema.TypeOK)
		st.nobodyWatches()
		st.rest(false)
		pass(time.Minute)
		require.Empty(t, d.frames)
		require.Equal(t, "offline", names(d.watch("bob")[0]))
	})
}

// TestWatchesRestWhileLookedUp: what was asked before is not told while they rest, and when they go on
// nobody is left with it.
func TestWatchesRestWhileLookedUp(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		const slow = time.Second
		first := true
		st.with(func(m *fakeMesh) {
			m.onLookup = func([]schema.UID) []client.Found {
				f := client.Found{UID: "bob", State: schema.Online, Stamp: stamp(100, 7), Routes: onlineAs("p1").Routes}
				if first {
					first = false
					time.Sleep(slow)
					f = client.Found{UID: "bob", State: schema.Offline, Stamp: stamp(100, 3)}
				}
				return []client.Found{f}
			}
		})
		d := st.hello("alice", "d1")
		d.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob"}})
		d.next(schema.TypeOK)
		pass(slow / 2)
		st.rest(true)
		require.Equal(t, []string{"bob unknown watch_off"}, d.sees())
		for range 5 {
			st.rest(false)
			pass(time.Millisecond)
			st.rest(true)
			pass(time.Millisecond)
		}
		st.rest(false)
		require.Equal(t, []string{"bob online p1"}, d.sees())
		pass(time.Minute)
		require.Empty(t, d.frames)
	})
}
