package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// watcher follows users as a backend does, and keeps what it is told.
type watcher struct {
	m *mesh.Mesh

	mu      sync.Mutex
	users   map[schema.UID]schema.WatchedUser
	lines   []string // "kind uid state devices reason"
	resyncs int
	back    []string // sightings whose stamp went back: none
	err     error
	run     *bubble.Process
	then    func(...schema.WatchedUser) // called for each sighting
}

func follow(m *mesh.Mesh, pause time.Duration, uids ...schema.UID) *watcher {
	m.T.Helper()
	return followThen(m, pause, func(...schema.WatchedUser) {}, uids...)
}

func followThen(m *mesh.Mesh, pause time.Duration, then func(...schema.WatchedUser), uids ...schema.UID) *watcher {
	m.T.Helper()
	w := &watcher{m: m, users: make(map[schema.UID]schema.WatchedUser), then: then}
	w.run = bubble.Go(m.T, func(ctx context.Context) error {
		for seen, err := range m.Watch(ctx, uids) {
			w.take(seen, err)
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		return nil
	})
	m.Await(5*time.Second, "a snapshot", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.users) == len(uids) || w.err != nil
	})
	return w
}

func (w *watcher) take(seen delivery.Sighting, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return
	}
	if seen.Kind == delivery.Resync {
		w.resyncs++
		w.lines = append(w.lines, "resync")
		return
	}
	before, known := w.users[seen.UID]
	if known && before.Stamp != nil && seen.Stamp != nil && seen.Stamp.Compare(*before.Stamp) < 0 {
		w.back = append(w.back, fmt.Sprintf("%s: %v after %v", seen.UID, *seen.Stamp, *before.Stamp))
	}
	w.users[seen.UID] = seen.WatchedUser
	w.then(seen.WatchedUser)
	w.lines = append(w.lines, fmt.Sprintf("%s %s %s %d %s", seen.Kind, seen.UID, seen.State, len(seen.Devices), seen.Reason))
}

func (w *watcher) said() []string {
	w.m.Pass(100 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}

// wrong gives whom the watcher sees otherwise than a look-up does.
func (w *watcher) wrong(uids []schema.UID) (list []string) {
	found, err := w.m.Lookup(context.Background(), uids)
	require.NoError(w.m.T, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range found {
		if u := w.users[f.UID]; u.State != string(f.State) || len(u.Devices) != len(f.Routes) {
			list = append(list, fmt.Sprintf("%s is %s with %d, seen %s with %d", f.UID, f.State, len(f.Routes), u.State, len(u.Devices)))
		}
	}
	return list
}

func TestWatch(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		one.Enter("bob")
		w := follow(m, 0, "alice", "bob")
		require.Equal(t, []string{"snapshot alice offline 0 ", "snapshot bob online 1 "}, w.said())
		phone := one.Enter("alice", mesh.As("phone", "app", schema.Master))
		require.Equal(t, []string{"changed alice online 1 connect"}, w.said())
		web := two.Enter("alice", mesh.As("desk", "web", schema.Slave))
		require.Equal(t, []string{"changed alice online 2 connect"}, w.said())
		phone.Leave()
		require.Equal(t, []string{"changed alice online 1 leave"}, w.said())
		two.Enter("carol")
		require.Empty(t, w.said(), "nobody that is watched")
		two.Enter("alice", mesh.As("desk", "web", schema.Slave)) // replaces
		web.Ended()
		for _, line := range w.said() {
			require.Contains(t, line, "alice online", "no offline in between")
		}
		m.Pass(6 * time.Minute)
		require.Empty(t, w.said(), "what is as told is not told again")
		require.NoError(t, w.run.Stop())
		require.NoError(t, w.err, "an end that the watcher has wished is none to report")
	})
}

func TestWatchEnds(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		for _, err := range m.Watch(t.Context(), []schema.UID{"alice", ""}) {
			require.ErrorIs(t, err, schema.ErrBad)
		}
		n := 0
		for range m.Watch(t.Context(), []schema.UID{"alice", "bob", "alice"}) {
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n, "one snapshot a user")
		w := follow(m, 0, "alice")
		m.Delivery.Close()
		<-w.run.Done()
		require.ErrorIs(t, w.err, delivery.ErrClosed)
	})
}

// TestWatchResyncs: what went by unseen is looked up, and the watcher is told that it may have
// missed steps.
func TestWatchResyncs(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one := m.Gateways[0]
		w := follow(m, 0, "alice", "bob")
		w.said()
		m.Asker.Cut()
		m.Asker.Reset()
		m.Pass(time.Second)
		alice := one.Enter("alice")
		one.Enter("bob").Leave()
		m.Pass(time.Second)
		require.Empty(t, w.said())
		m.Asker.Heal()
		m.Await(time.Minute, "resync", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.resyncs == 1 })
		require.Equal(t, []string{"changed alice online 1 ", "resync"}, w.said())

		slow := follow(m, 10*time.Millisecond, "alice", "carol")
		slow.said()
		for range 30 { // more than it takes in the time, fewer than a user may have sessions
			one.Enter("carol").Leave()
		}
		alice.Leave()
		m.Await(time.Minute, "all taken", func() bool { return len(slow.wrong([]schema.UID{"alice", "carol"})) == 0 })
		require.Empty(t, slow.back)
	})
}

// TestSlowWatcher loses events, since it takes none for a while, and finds out by itself.
func TestSlowWatcher(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		w := follow(m, 5*time.Second, "alice") // sleeps now
		event, err := json.Marshal(schema.Event{Type: schema.EventOnline, UID: "alice", Slot: subjects.SlotOf("alice")})
		require.NoError(t, err)
		for range 9000 {
			require.NoError(t, m.Outsider.Publish(subjects.Prefix("").Event("alice"), event))
		}
		require.NoError(t, m.Outsider.Flush())
		m.Gateways[0].Enter("alice")
		m.Pass(20 * time.Second)
		require.Equal(t, []string{"snapshot alice offline 0 ", "changed alice online 1 ", "resync"}, w.said())
	})
}

// TestWatchedTruth has users come and go while authorities and gateways die, move and drain. After
// it has settled every watcher's view is the truth, and no stamp has gone back.
func TestWatchedTruth(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2, Gateways: 3}, func(t *testing.T, m *mesh.Mesh) {
		var uids []schema.UID
		for i := range 60 {
			uids = append(uids, schema.UID(fmt.Sprintf("user %d", i)))
		}
		watchers := []*watcher{follow(m, 0, uids...), follow(m, 0, uids[:30]...), follow(m, 5*time.Millisecond, uids...)}
		r := rand.New(rand.NewPCG(1, 2))
		sockets := map[schema.UID]*mesh.Socket{}
		churn := func(steps int, gateways ...*mesh.Gateway) {
			for range steps {
				uid := uids[r.IntN(len(uids))]
				if s := sockets[uid]; s != nil && s.Open() {
					s.Kill()
					delete(sockets, uid)
				} else {
					sockets[uid] = gateways[r.IntN(len(gateways))].Hello(uid, mesh.As("phone", "app", schema.Master))
				}
				m.Pass(20 * time.Millisecond)
			}
		}
		churn(200, m.Gateways...)
		m.Gateways[2].Kill()
		churn(100, m.Gateways[:2]...)
		m.Authorities[1].Kill()
		churn(100, m.Gateways[:2]...)
		m.Asker.Cut()
		churn(20, m.Gateways[:2]...)
		m.Asker.Heal()
		m.StartAuthority("a-3")
		churn(100, m.Gateways[:2]...)
		require.NoError(t, m.Gateways[1].Stop())
		churn(50, m.Gateways[0])
		m.Pass(3 * time.Minute)
		for i, w := range watchers {
			mine := uids
			if i == 1 {
				mine = uids[:30]
			}
			require.Empty(t, w.wrong(mine), "watcher %d", i)
			require.Empty(t, w.back, "watcher %d", i)
			require.NoError(t, w.err)
		}
	})
}
