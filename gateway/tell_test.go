package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// lists are the watch lists of users' tokens.
type lists map[schema.UID][]schema.UID

func (l lists) Authenticate(ctx context.Context, c Credentials) (Identity, error) {
	id, err := Insecure{}.Authenticate(ctx, c)
	id.Watch, id.WatchAny = l[id.UID], false
	return id, err
}

// TestTellsOnceIn200ms has changes come faster than they are told: each frame has the latest of
// all who changed, and the first change is told in time.
func TestTellsOnceIn200ms(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		d.watch("bob", "carol", "dan", "eve")
		for k := range uint64(10) { // in 190 ms
			kind := schema.EventOnline
			if k%2 == 1 {
				kind = schema.EventOffline
			}
			st.event(kind, "bob", 2*k+1, 0, "p1")
			st.event(schema.EventOnline, "carol", 2*k+1, 0, "p1")
			require.Empty(t, d.frames)
			time.Sleep(19 * time.Millisecond)
		}
		st.event(schema.EventOnline, "dan", 1, 0, "p2")
		require.Empty(t, d.frames)
		pass(10 * time.Millisecond)
		users := d.next(schema.TypePresence).Users
		require.Equal(t, []string{"offline", "online p1", "online p2"}, []string{names(users[0]), names(users[1]), names(users[2])})
		require.Equal(t, stamp(100, 19), *users[0].Stamp)
		pass(time.Minute)
		require.Empty(t, d.frames, "eve has not changed, and nothing is told twice")

		st.event(schema.EventOnline, "eve", 1, 0, "p3")
		start := time.Now()
		require.Len(t, d.next(schema.TypePresence).Users, 1)
		require.LessOrEqual(t, time.Since(start), 200*time.Millisecond)
		require.Equal(t, 8.0, st.metric("presence_users_total", ""), "4 at first, 3, 1")
	})
}

// A user that is unwatched before it is told of is not told of.
func TestUnwatchedBeforeTold(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		d.watch("bob", "carol")
		st.event(schema.EventOnline, "bob", 1, 0, "p1")
		st.event(schema.EventOnline, "carol", 1, 0, "p1")
		d.send(schema.ClientFrame{Type: schema.TypeUnwatch, ID: "u", UIDs: []schema.UID{"bob", "nobody"}})
		d.next(schema.TypeOK)
		users := d.next(schema.TypePresence).Users
		require.Len(t, users, 1)
		require.Equal(t, schema.UID("carol"), users[0].UID)

		st.event(schema.EventOnline, "carol", 2, 0, "p2")
		d.send(schema.ClientFrame{Type: schema.TypeUnwatch, ID: "u", UIDs: []schema.UID{"carol"}})
		d.next(schema.TypeOK)
		require.Len(t, d.watch("carol"), 1, "once, though it had changed before")
		pass(time.Second)
		require.Empty(t, d.frames)
	})
}

// TestSlowWatcherWaits has a client that reads nothing while users change 20,000 times: what waits
// for it is one frame and the latest of each user. It is closed by the write that takes too long,
// not by its queue; one that reads again in time is told the latest.
func TestSlowWatcherWaits(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		patient, stuck := st.hello("alice", "d1"), st.hello("alice", "d2")
		patient.watch("bob", "carol")
		stuck.watch("bob", "carol")
		k := uint64(0)
		churn := func(seconds int) {
			for range seconds * 20 {
				for range 50 {
					k++
					st.event(schema.EventOnline, "bob", k, 0, "p1")
					st.event(schema.EventOnline, "carol", k, 0, "p1")
				}
				pass(50 * time.Millisecond)
			}
		}
		stuck.muted.Store(true)
		s := st.sessionOf(stuck)
		churn(5)
		s.mu.Lock()
		waits := len(s.out.frames)
		s.mu.Unlock()
		require.LessOrEqual(t, waits, 1, "beside what is being written")
		require.Equal(t, active, s.current())
		churn(8)
		require.Equal(t, closed, s.current())
		require.Equal(t, 1.0, st.metric("closes_total", "3004"))
		require.LessOrEqual(t, len(patient.frames), 13*5+1, "at most one in 200 ms")
		var last []schema.WatchedUser
		pass(time.Second)
		for len(patient.frames) > 0 {
			last = patient.next(schema.TypePresence).Users
		}
		require.Equal(t, k, last[0].Stamp.K)
		patient.ws.CloseNow()
		st.nobodyWatches()
	})
}

// A full queue of messages does not close a watcher: it is told when there is room.
func TestWatcherWithAFullQueue(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.QueueFrames = 4 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		d.watch("bob")
		d.muted.Store(true)
		for i := range 20 {
			st.push(d, "alice", fmt.Sprint(i), false)
			synctest.Wait()
		}
		require.Equal(t, schema.PushQueueFull, st.push(d, "alice", "x", false))
		st.event(schema.EventOnline, "bob", 1, 0, "p1")
		pass(2 * time.Second)
		require.Equal(t, active, st.sessionOf(d).current())
	})
}

// TestWatchThousand watches as many users as one may, in one frame of 64 KiB, on both encodings.
func TestWatchThousand(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var uids []schema.UID
		for i := range 1000 {
			uids = append(uids, schema.UID(fmt.Sprintf("%s-%04d", strings.Repeat("u", 54), i)))
		}
		b, err := schema.JSON.Encode(schema.ClientFrame{Type: schema.TypeWatch, ID: "w", UIDs: uids})
		require.NoError(t, err)
		require.InDelta(t, st.g.config.Limits.MaxBytes, len(b), 4000)
		require.LessOrEqual(t, int64(len(b)), st.g.config.Limits.MaxBytes)
		asked := st.directory(map[schema.UID]client.Found{})
		for _, enc := range []schema.Encoding{schema.JSON, schema.Msgpack} {
			d := st.dial(enc)
			d.send(schema.ClientFrame{Type: schema.TypeHello, Token: "alice", Device: schema.DeviceID(enc.Subprotocol())})
			d.next(schema.TypeConnected)
			users := d.watch(uids...)
			require.Len(t, users, 1000)
			for i, u := range users {
				require.Equal(t, uids[i], u.UID)
			}
			d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "x", UIDs: []schema.UID{"one more"}})
			f := d.next(schema.TypeError)
			require.Equal(t, schema.FrameWatchLimit, f.Code)
			require.Contains(t, f.Message, "1000")
			d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "x", UIDs: append(uids[:1000:1000], "one more")})
			require.Equal(t, schema.FrameWatchLimit, d.next(schema.TypeError).Code)
		}
		require.Equal(t, 1, *asked, "the second watcher is told what is known")
		users, sessions, pairs := st.g.watches.counts()
		require.Equal(t, [3]int{1000, 2, 2000}, [3]int{users, sessions, pairs})
	})
}

// A presence frame stays below what a client takes; the rest comes in the next.
func TestPresenceIsSplit(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var uids []schema.UID
		found := map[schema.UID]client.Found{}
		for i := range 500 {
			u := schema.UID(fmt.Sprint("user", i))
			f := client.Found{State: schema.Online, Stamp: stamp(100, 5)}
			for n := range 16 {
				f.Routes = append(f.Routes, schema.Route{Owner: owner, Session: schema.NewSessionNum(uint32(n), 1), Device: schema.DeviceID(strings.Repeat("d", 100) + fmt.Sprint(n)), Flag: "app"})
			}
			uids, found[u] = append(uids, u), f
		}
		st.directory(found)
		d := st.hello("alice", "d1")
		users := d.watch(uids...)
		require.Less(t, len(users), 500)
		for len(users) < 500 {
			users = append(users, d.next(schema.TypePresence).Users...)
		}
		for i, u := range users {
			require.Equal(t, uids[i], u.UID)
			require.Len(t, u.Devices, 16)
		}
	})
}

// Whoever ends leaves no watch behind: kicked, closed, or with its gateway.
func TestEndsFreeWatches(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		kicked, killed := st.hello("alice", "d1"), st.hello("carol", "d1")
		kicked.watch("bob", "eve")
		killed.watch("bob", "dan")
		st.event(schema.EventOnline, "bob", 1, 0, "p1") // is being told
		st.g.end(st.sessionOf(kicked), ending{code: schema.CloseRemoved})
		require.Equal(t, schema.CloseRemoved, kicked.code())
		require.Equal(t, [3]float64{2, 1, 2}, [3]float64{st.metric("watched", "users"), st.metric("watched", "sessions"), st.metric("watched", "pairs")})
		killed.ws.CloseNow()
		st.nobodyWatches()
		pass(time.Second)
		require.Empty(t, st.g.watches.waiting)
	})
}
