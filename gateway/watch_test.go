package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// directory is what the look-ups of a test answer.
func (st *stage) directory(found map[schema.UID]client.Found) *int {
	lookups := new(int)
	st.with(func(m *fakeMesh) {
		m.onLookup = func(uids []schema.UID) []client.Found {
			list := make([]client.Found, len(uids))
			st.with(func(*fakeMesh) {
				*lookups++
				for i, u := range uids {
					f, ok := found[u]
					if !ok {
						f = client.Found{State: schema.Offline, Stamp: stamp(100, 0)}
					}
					f.UID = u
					list[i] = f
				}
			})
			return list
		}
	})
	return lookups
}

func stamp(fence, k uint64) schema.Stamp {
	return schema.Stamp{Fence: schema.Revision(fence), K: k}
}

var owner = schema.Process{Node: "gw-2", Boot: "AAAAAAAAAAAAAAAAAAAAAA"}

func onlineAs(devices ...schema.DeviceID) client.Found {
	f := client.Found{State: schema.Online, Stamp: stamp(100, 5)}
	for i, d := range devices {
		f.Routes = append(f.Routes, schema.Route{Owner: owner, Session: schema.NewSessionNum(uint32(i), 1), Device: d, Flag: "app", Level: schema.Master})
	}
	return f
}

func (st *stage) event(kind schema.EventType, u schema.UID, k uint64, index uint32, d schema.DeviceID) {
	st.t.Helper()
	data, err := json.Marshal(schema.Event{
		Type: kind, Slot: slotOf(u), UID: u, Stamp: stamp(100, k), Reason: schema.ReasonConnect,
		Route: &schema.EventRoute{Node: owner.Node, Boot: owner.Boot, Session: schema.NewSessionNum(index, 1).Outside(owner.Boot), Device: d, Flag: "app", Level: "master"},
	})
	require.NoError(st.t, err)
	st.publish(st.g.config.Prefix.Event(u), data)
	synctest.Wait()
}

// rebuilt tells that a user's slot was rebuilt.
func (st *stage) rebuilt(u schema.UID, fence uint64) {
	st.t.Helper()
	data, err := json.Marshal(schema.Event{Type: schema.EventRebuilt, Slot: slotOf(u), Stamp: stamp(fence, 0)})
	require.NoError(st.t, err)
	st.publish(st.g.config.Prefix.SlotEvents(), data)
	synctest.Wait()
}

// nobodyWatches requires that nothing is left of any watch.
func (st *stage) nobodyWatches() {
	st.t.Helper()
	synctest.Wait()
	users, sessions, pairs := st.g.watches.counts()
	require.Equal(st.t, [3]int{}, [3]int{users, sessions, pairs})
}

func (d *device) watch(uids ...schema.UID) []schema.WatchedUser {
	d.t.Helper()
	d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "w", UIDs: uids})
	require.Equal(d.t, "w", d.next(schema.TypeOK).ID)
	return d.next(schema.TypePresence).Users
}

func names(u schema.WatchedUser) string {
	var list strings.Builder
	list.WriteString(u.State)
	for _, d := range u.Devices {
		list.WriteString(" " + string(d.Device))
	}
	return list.String()
}

func TestWatch(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.directory(map[schema.UID]client.Found{"bob": onlineAs("p1", "p2")})
		a, b := st.hello("alice", "d1"), st.hello("carol", "d1")
		users := a.watch("bob", "eve")
		require.Len(t, users, 2)
		require.Equal(t, "online p1 p2", names(users[0]))
		require.Equal(t, stamp(100, 5), *users[0].Stamp)
		require.Equal(t, schema.WatchedDevice{Device: "p1", Flag: "app", Level: "master"}, users[0].Devices[0])
		require.Equal(t, "offline", names(users[1]))
		b.watch("bob")

		for _, step := range []struct {
			kind   schema.EventType
			k      uint64
			index  uint32
			device schema.DeviceID
			want   string // empty: nothing is told
		}{
			{schema.EventAdded, 5, 2, "p3", ""}, // the look-up knew that
			{schema.EventRemoved, 6, 0, "p1", "online p2"},
			{schema.EventAdded, 7, 2, "p3", "online p2 p3"},
			{schema.EventRemoved, 6, 1, "p2", ""}, // repeated, or late
			{schema.EventOffline, 8, 2, "p3", "offline"},
			{schema.EventOnline, 9, 3, "p4", "online p4"},
		} {
			st.event(step.kind, "bob", step.k, step.index, step.device)
			for _, d := range []*device{a, b} {
				if step.want == "" {
					pass(tellEvery)
					require.Empty(t, d.frames)
					continue
				}
				u := d.next(schema.TypePresence).Users
				require.Len(t, u, 1)
				require.Equal(t, step.want, names(u[0]))
				require.Equal(t, "connect", u[0].Reason)
				require.Equal(t, stamp(100, step.k), *u[0].Stamp)
			}
		}
		a.send(schema.ClientFrame{Type: schema.TypeUnwatch, ID: "u", UIDs: []schema.UID{"bob"}})
		a.next(schema.TypeOK)
		st.event(schema.EventAdded, "bob", 10, 4, "p5")
		require.Equal(t, "online p4 p5", names(b.next(schema.TypePresence).Users[0]))
		require.Empty(t, a.frames)
		b.ws.CloseNow()
		a.ws.CloseNow()
		st.nobodyWatches()
	})
}

// TestWatchOvertakes gets an event while the look-up is under way.
func TestWatchOvertakes(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onLookup = func([]schema.UID) []client.Found {
				st.publish(st.g.config.Prefix.Event("bob"), []byte(`{"type":"online","uid":"bob","stamp":[100,6],"route":{"node":"gw-2","session":"x.1","device":"p9"}}`))
				time.Sleep(10 * time.Millisecond)
				return []client.Found{{UID: "bob", State: schema.Offline, Stamp: stamp(100, 5)}}
			}
		})
		require.Equal(t, "online p9", names(st.hello("alice", "d1").watch("bob")[0]))
	})
}

// TestWatchRebuilt looks up again on rebuilt, and keeps an unknown user unknown until it is not.
func TestWatchRebuilt(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		found := map[schema.UID]client.Found{"bob": {State: schema.Unknown, Why: client.WhyRebuilding}, "dan": onlineAs("p1")}
		lookups := st.directory(found)
		d := st.hello("alice", "d1")
		users := d.watch("bob", "dan")
		require.Equal(t, "unknown", users[0].State)
		require.Nil(t, users[0].Stamp)
		pass(7 * time.Second)
		require.Equal(t, 4, *lookups, "the unknown one is tried again")
		st.with(func(*fakeMesh) {
			found["bob"] = client.Found{State: schema.Online, Stamp: stamp(101, 0), Routes: onlineAs("p2").Routes}
		})
		st.rebuilt("bob", 101)
		require.Equal(t, "online p2", names(d.next(schema.TypePresence).Users[0]))
		before := *lookups
		pass(time.Minute)
		require.Equal(t, before, *lookups)

		st.with(func(*fakeMesh) { found["dan"] = client.Found{State: schema.Unknown, Why: client.WhyUnreachable} })
		pass(client.LookAtAll)
		require.Greater(t, *lookups, before, "all are looked up now and then")
		require.Empty(t, d.frames, "what could not be looked up is as it was known")
		st.with(func(*fakeMesh) { found["dan"] = client.Found{State: schema.Unknown, Why: client.WhyRebuilding} })
		pass(2 * client.LookAgain)
		require.Equal(t, "unknown", names(d.next(schema.TypePresence).Users[0]))
	})
}

// TestWatchOfAnUnreadableEvent looks up again: an authority of another version may have meant anything.
func TestWatchOfAnUnreadableEvent(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		found := map[schema.UID]client.Found{"bob": onlineAs("p1")}
		st.directory(found)
		d := st.hello("alice", "d1")
		require.Equal(t, "online p1", names(d.watch("bob")[0]))
		st.with(func(*fakeMesh) {
			found["bob"] = client.Found{State: schema.Online, Stamp: stamp(101, 0), Routes: onlineAs("p2").Routes}
		})
		st.publish(st.g.config.Prefix.Event("bob"), []byte("?"))
		start := time.Now()
		require.Equal(t, "online p2", names(d.next(schema.TypePresence).Users[0]))
		require.LessOrEqual(t, time.Since(start), client.LookAgain+2*tellEvery)
		require.Equal(t, 1.0, st.metric("drops_total", string(dropMalformed)))
	})
}

func TestWatchLimits(t *testing.T) {
	auth := authenticator(func(context.Context, Credentials) (Identity, error) {
		return Identity{UID: "alice", Flag: "app", Watch: []schema.UID{"bob", "b2", "b3", "b4"}}, nil
	})
	perform(t, func(c *Config) { c.Auth, c.Limits.Watches = auth, 3 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		refused := func(code schema.FrameCode, uids ...schema.UID) {
			t.Helper()
			d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "x", UIDs: uids})
			f := d.next(schema.TypeError)
			require.Equal(t, code, f.Code)
			require.Equal(t, "x", f.ID)
		}
		refused(schema.FrameNotAllowed, "bob", "eve")
		d.watch("alice", "bob")
		refused(schema.FrameWatchLimit, "b2", "b3")
		d.watch("bob", "b2", "b2")
		refused(schema.FrameWatchLimit, "b3")
		d.send(schema.ClientFrame{Type: schema.TypeUnwatch, UIDs: []schema.UID{"bob"}})
		d.next(schema.TypeOK)
		d.watch("b3")
	})
	perform(t, func(c *Config) { c.WatchOff = true }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		d.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob"}})
		require.Equal(t, schema.FrameWatchOff, d.next(schema.TypeError).Code)
	})
}

// TestOneSubscriptionAUser has many watch the same users at once.
func TestOneSubscriptionAUser(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.directory(map[schema.UID]client.Found{"bob": onlineAs("p1")})
		var devices []*device
		for i := range 20 {
			devices = append(devices, st.hello("alice", schema.DeviceID(fmt.Sprint(i))))
		}
		before := st.subscribed()
		for _, d := range devices {
			d.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob", "eve"}})
		}
		for _, d := range devices {
			d.next(schema.TypeOK)
			require.Len(t, d.next(schema.TypePresence).Users, 2)
		}
		require.Equal(t, before+2, st.subscribed(), "one a user")
	})
}

// A frame of 64 KiB can name one user 15,000 times: it costs what naming it once costs.
func TestWatchNamesAUserOnce(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		asked := 0
		st.with(func(m *fakeMesh) {
			m.onLookup = func(uids []schema.UID) []client.Found {
				st.with(func(*fakeMesh) { asked += len(uids) })
				return make([]client.Found, len(uids))
			}
		})
		users := st.hello("alice", "d1").watch(append(slices.Repeat([]schema.UID{"bob"}, 10_000), "eve")...)
		require.Len(t, users, 2)
		require.Equal(t, schema.UID("bob"), users[0].UID)
		st.with(func(*fakeMesh) { require.Equal(t, 2, asked) })
	})
}
