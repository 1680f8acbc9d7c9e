package mesh_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// leaseTime is the default one.
const leaseTime = 30 * time.Second

// town is a mesh with users in it: some online on both gateways, some not.
type town struct {
	t       *testing.T
	m       *mesh.Mesh
	online  []schema.UID
	offline []schema.UID
	devices []*mesh.Device
}

func newTown(t *testing.T, m *mesh.Mesh, users int, change ...func(*client.Config)) *town {
	t.Helper()
	w := &town{t: t, m: m}
	for i := range users {
		uid := schema.UID(fmt.Sprintf("user %d", i))
		w.online = append(w.online, uid)
		w.devices = append(w.devices, m.Gateways[i%2].Login(uid, "phone", append(change, mesh.Master)...))
		w.offline = append(w.offline, schema.UID(fmt.Sprintf("nobody %d", i)))
	}
	return w
}

// of gives the part of the town whose slots an authority owns, or does not.
func (w *town) of(node schema.NodeID, owned bool) *town {
	w.t.Helper()
	part := &town{t: w.t, m: w.m}
	for i, uid := range w.online {
		if (w.m.Find(uid).Target.Authority.Node == node) == owned {
			part.online, part.devices = append(part.online, uid), append(part.devices, w.devices[i])
		}
		if nobody := w.offline[i]; (w.m.Find(nobody).Target.Authority.Node == node) == owned {
			part.offline = append(part.offline, nobody)
		}
	}
	require.NotEmpty(w.t, part.online)
	return part
}

// watch looks everybody up ten times a second until the function returned is called: who is online
// is never offline, and who is not is never online. That function gives the longest time for which
// one user was unknown.
func (w *town) watch() (unknown func() time.Duration) {
	stop := make(chan struct{})
	everybody := w.everybody()
	since := make([]time.Time, len(everybody)) // when each was last known
	for i := range since {
		since[i] = time.Now()
	}
	longest := time.Duration(0)
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			for i, known := range w.look(everybody) {
				if known {
					since[i] = time.Now()
				}
				longest = max(longest, time.Since(since[i]))
			}
			select {
			case <-stop:
				return
			case <-time.After(lookEvery):
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop); looking.Wait() })
	w.t.Cleanup(end)
	return func() time.Duration { end(); return longest }
}

// lookEvery is the time between two look-ups of watch.
const lookEvery = 100 * time.Millisecond

// look looks everybody up and tells who was known.
func (w *town) look(everybody []schema.UID) (known []bool) {
	found, err := w.m.Lookup(context.Background(), everybody)
	if err != nil {
		w.t.Errorf("look-up: %v", err)
	}
	for i, f := range found {
		isOnline := i < len(w.online)
		if isOnline && f.State == schema.Offline || !isOnline && f.State == schema.Online {
			w.t.Errorf("%s was called %s (online %v)", f.UID, f.State, isOnline)
		}
		known = append(known, f.State != schema.Unknown)
	}
	return known
}

func (w *town) everybody() []schema.UID { return append(slices.Clone(w.online), w.offline...) }

// stayed checks that no device has lost its connection.
func (w *town) stayed() {
	w.t.Helper()
	for _, d := range w.devices {
		require.Empty(w.t, codes(d), d.UID)
	}
}

// TestAuthorityDies kills one authority of three. Until its lease ends its users are unknown, never
// offline, and the others' users are served all the time; then these claim its slots, the gateways
// sync unasked, and all is as before: no socket was closed for it, and nobody was told that a user
// has come or gone.
func TestAuthorityDies(t *testing.T) {
	for name, die := range map[string]func(*mesh.Authority){
		"killed": (*mesh.Authority).Kill, "vanished": (*mesh.Authority).Vanish,
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Authorities: 3}, func(t *testing.T, m *mesh.Mesh) {
				w := newTown(t, m, 60)
				m.Pass(leaseTime) // the bucket is no longer young
				told := m.Follow()
				unknown, unknownElsewhere := w.of("a-1", true).watch(), w.of("a-1", false).watch()
				die(m.Authorities[0])
				m.Served(leaseTime + 10*time.Second)
				require.Zero(t, unknownElsewhere())
				lasted := unknown()
				require.Greater(t, lasted, leaseTime-4*time.Second, "a lease stands for what is left of it")
				require.Less(t, lasted, leaseTime+2*time.Second)
				m.Truth(w.everybody()...)
				sure := w.watch()
				m.Settled(time.Minute)
				require.LessOrEqual(t, sure(), lookEvery, "slots move until the shares are even")
				require.Equal(t, map[schema.NodeID]int{"a-2": 128, "a-3": 128}, m.Shares())
				w.stayed()
				m.Truth(w.everybody()...)
				for _, uid := range w.online {
					require.Empty(t, told.Of(uid), "nothing has changed for %s but in truth's messages", uid)
				}
			})
		})
	}
}

// TestLifeWithoutAnAuthority has users come, go and be written to while nobody owns their slots.
func TestLifeWithoutAnAuthority(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 20)
		m.Pass(leaseTime)
		m.Authorities[0].Kill()
		m.Pass(5 * time.Second)
		for _, d := range w.devices[:5] {
			d.Leave()
		}
		at := time.Now()
		newcomer := m.Gateways[0].Hello("newcomer")
		stubborn := m.Gateways[1].Connect("stubborn", "phone")
		end := newcomer.Ended()
		require.Equal(t, schema.CloseNotNow, end.Code)
		require.LessOrEqual(t, end.At.Sub(at), 5*time.Second)
		hint := newcomer.Frames()[0].ServerFrame
		require.Equal(t, schema.FrameUnavailable, hint.Code)
		require.True(t, hint.Retryable)
		require.Positive(t, hint.RetryAfterMS)
		pushed := m.PushTo(w.online[10], "meanwhile")
		require.Equal(t, schema.Unknown, pushed.State)
		require.False(t, pushed.Reached)
		m.StartAuthority("a-2") // under another name: the lease of a-1 stands
		m.Served(leaseTime + 10*time.Second)
		m.Truth(append(w.online, "newcomer")...)
		m.Await(time.Minute, "stubborn is in", func() bool { _, ok := stubborn.Session(); return ok })
		m.Truth("stubborn")
		w.devices = w.devices[5:]
		w.stayed()
		m.Pass(2 * time.Minute)
		m.Truth(append(w.online, "newcomer", "stubborn")...)
	})
}

// TestAuthorityRestarts has a killed authority come back at once under its name: its slots are
// served again without waiting for a lease.
func TestAuthorityRestarts(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 50)
		m.Pass(leaseTime)
		unknown := w.watch()
		m.Authorities[0].Kill()
		m.StartAuthority("a-1")
		m.Served(10 * time.Second)
		require.Less(t, unknown(), time.Second)
		w.stayed()
		m.Truth(w.everybody()...)
	})
}

// TestAuthorityStops ends one of two authorities in good order: it hands its slots over, and nobody
// is unknown for longer than a moment.
func TestAuthorityStops(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 50)
		m.Pass(leaseTime)
		unknown := w.watch()
		require.NoError(t, m.Authorities[0].Stop())
		m.Served(time.Second)
		require.LessOrEqual(t, unknown(), 2*lookEvery)
		require.Equal(t, map[schema.NodeID]int{"a-2": 256}, m.Shares())
		w.stayed()
		m.Truth(w.everybody()...)
	})
}

// TestAuthorityStopsBesideASilentOne ends the last authority that lives, while the others' keys still
// stand: it gives the silent ones no more than it takes to find that out, and the next authority takes
// the rest at once.
func TestAuthorityStopsBesideASilentOne(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 3}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 50)
		m.Pass(leaseTime)
		m.Authorities[0].Vanish()
		m.Authorities[1].Vanish()
		at := time.Now()
		require.NoError(t, m.Authorities[2].Stop())
		require.Less(t, time.Since(at), 3*time.Second)
		owners := m.Shares()
		require.GreaterOrEqual(t, owners["a-1"]+owners["a-2"], 2*85)
		require.LessOrEqual(t, owners["a-1"]+owners["a-2"], 2*86+2*8, "two rounds of eight")
		w.stayed()
	})
}

// TestSyncMeetsFaults loses, doubles and delays the messages by which gateways tell a new authority
// of their sessions: each first one, and as many of what follows.
func TestSyncMeetsFaults(t *testing.T) {
	sync := operation{name: "sync", pattern: "slot.*.*.sync", try: 2 * time.Second}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
				w := newTown(t, m, 40)
				m.Pass(leaseTime)
				unknown := w.watch()
				m.Authorities[0].Kill()
				met := f.each(sync, m, 128)
				m.Served(leaseTime + time.Minute)
				unknown()
				require.Equal(t, 2*128, met(), "a message of each gateway for each slot")
				w.stayed()
				for _, d := range w.devices[:10] {
					d.Leave()
				}
				m.Truth(w.everybody()...)
				m.Pass(f.late) // what was delayed comes late, also of who has left
				m.Truth(w.everybody()...)
			})
		})
	}
}

// each puts the fault in for the next messages of each gateway, and gives how many it has met.
func (f fault) each(o operation, m *mesh.Mesh, times int) (met func() int) {
	var all []interface{ Hits() int }
	for _, g := range m.Gateways {
		for range times {
			all = append(all, f.on(g.Control, o))
		}
	}
	return func() (n int) {
		for _, r := range all {
			n += r.Hits()
		}
		return n
	}
}

// TestTwoSessionsAfterARebuild leaves two sessions of a device beside each other, each of which a
// different authority has let in: the gateway of the first one was cut off meanwhile. When it is
// heard again, the later login stays and the other one is closed.
func TestTwoSessionsAfterARebuild(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		old := one.Enter("alice", mesh.As("d1", "app", schema.Master))
		m.StartAuthority("a-2")
		m.Pass(leaseTime)
		one.Cut()
		for _, a := range m.Authorities {
			a.Kill()
		}
		m.StartAuthority("a-3")
		m.Pass(leaseTime + 10*time.Second) // the leases of the authorities and of gw-1 have ended
		require.True(t, old.Open())
		fresh := two.Enter("alice", mesh.As("d1", "app", schema.Master))
		seen := probe(t, m, "alice")
		one.Heal()
		require.Equal(t, schema.CloseReplaced, old.Ended().Code)
		m.Pass(long)
		require.Equal(t, []string{string(session(fresh))}, seen())
		m.Truth("alice")
	})
}

// TestPushesDuringARebuild keeps a backend pushing while the authority is replaced. What is told as
// written has come, and nothing else has; nobody who is there is called offline.
func TestPushesDuringARebuild(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 20)
		m.Pass(leaseTime)
		m.Authorities[0].Kill()
		reached := 0
		for i := range 450 {
			id := fmt.Sprintf("m%d", i)
			pushed, err := m.Push(t.Context(), delivery.Message{ID: id, Payload: []byte(`1`)}, w.online)
			require.NoError(t, err)
			m.Still()
			for n, u := range pushed.Users {
				require.NotEqual(t, schema.Offline, u.State, "%s at %s", u.UID, id)
				got := 0
				if u.Reached {
					got = 1
					reached++
				}
				require.Equal(t, got, w.devices[n].Got(id), "%s at %s", u.UID, id)
			}
			m.Pass(100 * time.Millisecond)
		}
		require.Greater(t, reached, 100*len(w.online), "the last ten seconds, and the other's slots")
		require.Less(t, reached, 450*len(w.online))
		w.stayed()
	})
}
