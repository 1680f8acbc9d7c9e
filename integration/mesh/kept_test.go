package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// archive is the stream of events, as a consumer reads it.
type archive struct {
	t  *testing.T
	js jetstream.JetStream
}

// keepEvents makes the stream and turns it on, as `rollcall setup --events` does.
func keepEvents(t *testing.T, m *mesh.Mesh) *archive {
	t.Helper()
	a := &archive{t: t}
	var err error
	a.js, err = jetstream.New(m.Outsider)
	require.NoError(t, err)
	require.NoError(t, m.Bucket().KeepEvents(t.Context(), 0))
	m.Configure(func(c *schema.Config) { c.Events = true })
	return a
}

// all gives what the stream holds, in its order.
func (a *archive) all() (events []schema.Event) {
	a.t.Helper()
	s, err := a.js.Stream(a.t.Context(), subjects.Prefix("").EventStream())
	require.NoError(a.t, err)
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := s.GetMsg(a.t.Context(), seq)
		require.NoError(a.t, err)
		var e schema.Event
		require.NoError(a.t, json.Unmarshal(msg.Data, &e))
		events = append(events, e)
	}
	return events
}

// of gives a user's events in it, as type and reason.
func (a *archive) of(uid schema.UID) (told []string) {
	for _, e := range a.all() {
		if e.UID == uid {
			told = append(told, string(e.Type)+" "+e.Reason.String())
		}
	}
	return told
}

// requireOrder checks that each event is in the stream once, and those of a user by their stamps.
func requireOrder(t *testing.T, events []schema.Event) {
	t.Helper()
	last := map[schema.UID]schema.Stamp{}
	for _, e := range events {
		if e.UID != "" {
			require.Negative(t, last[e.UID].Compare(e.Stamp), "%s: %v after %v", e.UID, e.Stamp, last[e.UID])
			last[e.UID] = e.Stamp
		}
	}
}

// rebuilt gives the slots that the events say have to be looked up again.
func rebuilt(events []schema.Event) map[schema.Slot]bool {
	slots := map[schema.Slot]bool{}
	for _, e := range events {
		if e.Type == schema.EventRebuilt {
			slots[e.Slot] = true
		}
	}
	return slots
}

// blink has a user come and go.
func blink(m *mesh.Mesh, uid schema.UID, times int) (want []string) {
	for range times {
		m.Gateways[0].Enter(uid).Kill()
		m.Still()
		want = append(want, "online connect", "offline leave")
	}
	return want
}

// TestEventsAreKept: the stream has what listeners hear, once, and nothing is published for it while
// it is off.
func TestEventsAreKept(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2, Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		a := keepEvents(t, m)
		told := m.Follow()
		want := map[schema.UID][]string{}
		for i := range 20 {
			uid := schema.UID(fmt.Sprintf("user %d", i))
			want[uid] = blink(m, uid, 5)
		}
		m.Pass(time.Second)
		for uid, events := range want {
			require.Equal(t, events, a.of(uid), uid)
			require.Equal(t, events, told.Once(uid), "%s: as it was heard", uid)
		}
		requireOrder(t, a.all())
		stored := len(a.all())
		m.Configure(func(c *schema.Config) { c.Events = false })
		require.NoError(t, a.js.DeleteStream(t.Context(), subjects.Prefix("").EventStream()))
		require.Equal(t, 200, stored)
		blink(m, "alice", 1)
		m.Pass(time.Second)
		require.Equal(t, []string{"online connect", "offline leave"}, told.Of("alice"), "told once, as without a stream")
	})
}

// TestEventsMeetFaults loses messages to the stream and its answers, delays and doubles them: it has
// each event once, a user's in their order.
func TestEventsMeetFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
				a := keepEvents(t, m)
				told := m.Follow()
				w := follow(m, 0, "alice")
				link := m.Authorities[0].Link
				events := operation{name: "event", pattern: "event.*.*", try: 2 * time.Second}
				var want []string
				for range 8 {
					f.on(link, events)
					want = append(want, blink(m, "alice", 2)...)
					blink(m, "bob", 1)
				}
				m.Pass(30 * time.Second)
				link.Mend()
				m.Pass(30 * time.Second)
				require.Equal(t, want, a.of("alice"))
				requireOrder(t, a.all())
				require.Empty(t, w.back)
				require.Empty(t, w.wrong([]schema.UID{"alice"}))
				require.LessOrEqual(t, len(told.Once("alice")), len(want))
			})
		})
	}
}

// TestStreamGone deletes the stream while it is on. Who listens hears each event at once. What the
// stream had no time to get in a minute is told as rebuilt to it when it is there again, what came in
// the last minute is stored, and then all is as before.
func TestStreamGone(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		a := keepEvents(t, m)
		told := m.Follow()
		w := follow(m, 0, "alice", "bob")
		require.NoError(t, a.js.DeleteStream(t.Context(), subjects.Prefix("").EventStream()))
		at := time.Now()
		lost := blink(m, "alice", 3)
		m.Still()
		require.Equal(t, lost, told.Of("alice"), "heard at once")
		require.Less(t, time.Since(at), time.Second)
		m.Pass(5 * time.Minute)
		kept := blink(m, "bob", 3)
		m.Still()
		require.Equal(t, kept, told.Of("bob"), "heard at once")
		m.Pass(30 * time.Second)
		require.NoError(t, m.Bucket().KeepEvents(t.Context(), time.Hour))
		m.Pass(5 * time.Second)
		require.Empty(t, a.of("alice"))
		require.Equal(t, kept, a.of("bob"))
		require.Equal(t, map[schema.Slot]bool{subjects.SlotOf("alice"): true}, rebuilt(a.all()))
		again := blink(m, "alice", 1)
		m.Pass(time.Second)
		require.Equal(t, again, a.of("alice"))
		requireOrder(t, a.all())
		require.Empty(t, w.wrong([]schema.UID{"alice", "bob"}))
		require.Empty(t, w.back)
	})
}

// TestEventsWithoutJetStream: who listens notices nothing, as long as users may come and go at all.
func TestEventsWithoutJetStream(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		keepEvents(t, m)
		told := m.Follow()
		require.NoError(t, m.Server.NATS().DisableJetStream())
		at := time.Now()
		want := blink(m, "alice", 10)
		require.Equal(t, want, told.Of("alice"))
		require.Less(t, time.Since(at), time.Second)
		m.Pass(10 * time.Second)
		want = append(want, blink(m, "alice", 1)...)
		require.Equal(t, want, told.Once("alice"), "beside what is repeated for the stream")
	})
}

// TestEventsAfterAFailover kills the owner in the middle of events: a consumer that looks up again on
// rebuilt, and takes nothing below the stamp it has, ends with the truth.
func TestEventsAfterAFailover(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		a := keepEvents(t, m)
		m.Pass(leaseTime)
		var uids []schema.UID
		for i := range 40 {
			uids = append(uids, schema.UID(fmt.Sprintf("user %d", i)))
			m.Gateways[i%2].Hello(uids[i])
			if i == 20 {
				m.Authorities[0].Kill()
			}
		}
		m.Served(leaseTime + time.Minute)
		m.Pass(time.Minute)
		events := a.all()
		slots := rebuilt(events)
		told := map[schema.UID]bool{}
		for _, e := range events {
			told[e.UID] = told[e.UID] || e.Type == schema.EventOnline
		}
		found, err := m.Lookup(context.Background(), uids)
		require.NoError(t, err)
		for _, f := range found {
			if f.State == schema.Online {
				require.True(t, told[f.UID] || slots[subjects.SlotOf(f.UID)], "%s is online, and the stream says neither that nor to look", f.UID)
			}
		}
		requireOrder(t, events)
	})
}
