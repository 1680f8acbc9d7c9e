package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestWatchDoubtedWhileLookedUp: a slot is rebuilt while its users are looked up. The answer, which is from
// before, does not end the doubt.
func TestWatchDoubtedWhileLookedUp(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.directory(nil)
		d := st.hello("alice", "d1")
		require.Equal(t, "offline", names(d.watch("bob")[0]))
		first := true
		st.with(func(m *fakeMesh) {
			m.onLookup = func([]schema.UID) []client.Found {
				if first {
					first = false
					time.Sleep(50 * time.Millisecond)
					return []client.Found{{UID: "bob", State: schema.Offline, Stamp: stamp(100, 0)}}
				}
				return []client.Found{{UID: "bob", State: schema.Online, Stamp: stamp(101, 0), Routes: onlineAs("p1").Routes}}
			}
		})
		start := time.Now()
		st.rebuilt("bob", 101)
		require.False(t, first, "a look-up is under way")
		st.rebuilt("bob", 101)
		require.Equal(t, "online p1", names(d.next(schema.TypePresence).Users[0]))
		require.Less(t, time.Since(start), time.Second)
	})
}

// TestWatchFoundOutLate: who was told that a user is unknown, since that took too long, is told as soon as
// it is known.
func TestWatchFoundOutLate(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		const slow = findOutWithin + 500*time.Millisecond
		st.with(func(m *fakeMesh) {
			m.onLookup = func([]schema.UID) []client.Found {
				time.Sleep(slow)
				return []client.Found{{UID: "bob", State: schema.Offline, Stamp: stamp(100, 0)}}
			}
		})
		a, b := st.hello("alice", "d1"), st.hello("carol", "d1")
		start := time.Now()
		a.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob"}})
		a.next(schema.TypeOK)
		pass(100 * time.Millisecond)
		require.Equal(t, "unknown", names(b.watch("bob")[0]))
		require.Equal(t, "offline", names(b.next(schema.TypePresence).Users[0]))
		require.LessOrEqual(t, time.Since(start), slow+2*tellEvery)
		require.Equal(t, "offline", names(a.next(schema.TypePresence).Users[0]))
		pass(time.Minute)
		require.Empty(t, a.frames)
		require.Empty(t, b.frames)
	})
}

// TestWatchNotHeard: as long as the server has not confirmed the subscriptions, events may go by; so what
// they are of is looked up until it has, and once more then.
func TestWatchNotHeard(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		found := map[schema.UID]client.Found{}
		lookups := st.directory(found)
		st.flushes(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		d := st.hello("alice", "d1")
		require.Equal(t, "offline", names(d.watch("bob")[0]))
		st.with(func(*fakeMesh) { found["bob"] = onlineAs("p1") })
		start := time.Now()
		require.Equal(t, "online p1", names(d.next(schema.TypePresence).Users[0]))
		require.Less(t, time.Since(start), client.LookAgain+findOutWithin+2*tellEvery)
		st.flushes(nil)
		pass(client.LookAgain + findOutWithin)
		before := *lookups
		pass(time.Minute)
		require.Equal(t, before, *lookups, "it has heard")
	})
}

// TestWatchAfterAReconnect: nats.go has told the server anew what is listened to, but other connections may
// overtake that: it has to have heard before anything is looked up.
func TestWatchAfterAReconnect(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var order []string
		note := func(what string) { st.with(func(*fakeMesh) { order = append(order, what) }) }
		d := st.hello("alice", "d1")
		d.watch("bob")
		st.flushes(func(context.Context) error { note("flush"); return nil })
		st.with(func(m *fakeMesh) {
			m.onLookup = func([]schema.UID) []client.Found {
				note("look-up")
				return []client.Found{{UID: "bob", State: schema.Offline, Stamp: stamp(100, 0)}}
			}
		})
		st.reconnect(nats.CONNECTED)
		synctest.Wait()
		require.Equal(t, []string{"flush", "look-up"}, order)
	})
}

// TestWatchTellsTheLatestStamp: what a look-up has confirmed has its stamp, also where nothing else has
// changed: a client that was told more elsewhere takes it for older otherwise.
func TestWatchTellsTheLatestStamp(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		found := map[schema.UID]client.Found{"bob": onlineAs("p1")}
		st.directory(found)
		a, b := st.hello("alice", "d1"), st.hello("carol", "d1")
		require.Equal(t, stamp(100, 5), *a.watch("bob")[0].Stamp)
		st.with(func(*fakeMesh) {
			again := onlineAs("p1")
			again.Stamp = stamp(101, 3)
			found["bob"] = again
		})
		st.rebuilt("bob", 101)
		require.Equal(t, stamp(101, 3), *b.watch("bob")[0].Stamp)
		require.Empty(t, a.frames, "nothing has changed")
	})
}
