package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// keepLastSeen makes the bucket and turns it on, as `rollcall setup --last-seen 720h` does.
func keepLastSeen(t *testing.T, m *mesh.Mesh, age time.Duration) {
	t.Helper()
	require.NoError(t, m.Bucket().KeepLastSeen(t.Context(), age))
	m.Configure(func(c *schema.Config) { c.LastSeen = true })
}

// lastSeen asks the service of one user.
func lastSeen(m *mesh.Mesh, uid schema.UID) schema.UserReply {
	var reply schema.LookupReply
	m.Call("lookup", schema.LookupCall{UIDs: []schema.UID{uid}, LastSeen: true}, &reply)
	return reply.Results[0]
}

// dropLastSeen deletes the bucket.
func dropLastSeen(t *testing.T, m *mesh.Mesh) {
	t.Helper()
	js, err := jetstream.New(m.Outsider)
	require.NoError(t, err)
	require.NoError(t, js.DeleteKeyValue(t.Context(), subjects.Prefix("").LastSeenBucket()))
}

// TestLastSeen: the time is that at which the last session went, it is written once the user has been
// said to be offline, and is told of who is offline and of whom it was asked.
func TestLastSeen(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		require.Contains(t, lastSeen(m, "alice").LastSeenWhy, "is not kept")
		keepLastSeen(t, m, time.Hour)
		uids := []schema.UID{"alice", "a b@c", "back"}
		for _, uid := range uids {
			m.Gateways[0].Enter(uid).Kill()
		}
		m.Still()
		at := time.Now()
		m.Pass(3 * time.Second)
		m.Gateways[1].Enter("back")
		require.Empty(t, lastSeen(m, "alice").LastSeen, "he may come back yet")
		m.Pass(grace)
		for _, uid := range uids[:2] {
			u := lastSeen(m, uid)
			got, err := time.Parse(time.RFC3339Nano, u.LastSeen)
			require.NoError(t, err, uid)
			require.InDelta(t, 0, at.Sub(got), float64(time.Millisecond))
			require.Empty(t, u.LastSeenWhy)
		}
		seen, err := m.LastSeen(t.Context(), append(uids, "nobody"))
		require.NoError(t, err)
		require.Len(t, seen, 4)
		require.Zero(t, seen[2].At, "who came back was not away")
		require.Zero(t, seen[3].At)
		require.NoError(t, seen[3].Err)
		require.NotZero(t, seen[0].Stamp)
		require.Empty(t, lastSeen(m, "back").LastSeen)
		var plain schema.LookupReply
		m.Call("lookup", schema.LookupCall{UIDs: uids}, &plain)
		require.Empty(t, plain.Results[0].LastSeen, "it was not asked")
		m.Pass(2 * time.Hour)
		require.Empty(t, lastSeen(m, "alice").LastSeen, "too long ago")
		m.Configure(func(c *schema.Config) { c.LastSeen = false })
		require.Contains(t, lastSeen(m, "alice").LastSeenWhy, "is not kept")
	})
}

// TestLastSeenOfSeveralDevices: the time is the last device's, wherever it hung, and is written once for
// each time that the user was said to be offline, however many sessions that ended.
func TestLastSeenOfSeveralDevices(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 3}, func(t *testing.T, m *mesh.Mesh) {
		keepLastSeen(t, m, 24*time.Hour)
		js, err := jetstream.New(m.Outsider)
		require.NoError(t, err)
		written := func() uint64 {
			s, err := js.Stream(t.Context(), subjects.Prefix("").LastSeenStream())
			require.NoError(t, err)
			return s.CachedInfo().State.LastSeq
		}
		at := func(uid schema.UID) time.Time {
			seen, err := m.LastSeen(t.Context(), []schema.UID{uid})
			require.NoError(t, err)
			require.NoError(t, seen[0].Err)
			return seen[0].At
		}
		one, two, three := m.Gateways[0], m.Gateways[1], m.Gateways[2]
		phone := one.Enter("alice", mesh.As("phone", "app", schema.Master))
		tablet := two.Enter("alice", mesh.As("tablet", "web", schema.Slave))
		phone.Leave()
		m.Pass(time.Minute)
		require.Zero(t, written(), "one is still there")
		tablet.Kill()
		m.Pass(grace / 2)
		tablet = two.Enter("alice", mesh.As("tablet", "web", schema.Slave))
		m.Pass(time.Minute)
		require.Zero(t, written(), "back in time")
		tablet.Kill()
		m.Still()
		gone := time.Now()
		m.Pass(time.Minute)
		require.InDelta(t, 0, at("alice").Sub(gone), float64(time.Millisecond))
		require.EqualValues(t, 1, written())

		one.Enter("bob", mesh.As("phone", "app", schema.Master)).Leave()
		three.Enter("bob", mesh.As("tablet", "web", schema.Slave))
		three.Enter("bob", mesh.As("desk", "desktop", schema.Slave))
		three.Kill()
		m.Await(2*time.Minute, "the killed gateway's sessions are gone", func() bool { return m.Find("bob").State == schema.Offline })
		gone = time.Now()
		m.Pass(time.Minute)
		require.InDelta(t, 0, at("bob").Sub(gone), float64(time.Second))
		require.EqualValues(t, 2, written(), "two at once are one offline")
	})
}

// TestLastSeenCostsWhoAsks: the bucket is read of those who are offline and asked for, once each.
func TestLastSeenCostsWhoAsks(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		keepLastSeen(t, m, time.Hour)
		blink(m, "alice", 1)
		m.Gateways[0].Enter("bob")
		reads := make(chan *nats.Msg, 100)
		_, err := m.Outsider.ChanSubscribe("$JS.API.DIRECT.GET.>", reads)
		require.NoError(t, err)
		require.NoError(t, m.Outsider.Flush())
		for call, want := range map[string]int{
			`{"uids":["alice","bob"]}`:                            0,
			`{"uids":["bob","bob"],"last_seen":true}`:             0,
			`{"uids":["alice","bob","nobody"],"last_seen":true}`:  2,
			`{"uids":["alice","bob","nobody"],"last_seen":false}`: 0,
			`{"uids":["alice"],"await_ms":1000,"last_seen":true}`: 1,
		} {
			var reply schema.LookupReply
			code, why := m.Call("lookup", []byte(call), &reply)
			require.Empty(t, code, why)
			m.Pass(10 * time.Millisecond)
			require.Len(t, reads, want, call)
			for len(reads) > 0 {
				<-reads
			}
		}
	})
}

// TestLastSeenOfMany reads more users than are asked of the bucket at a time, after a crowd has left.
func TestLastSeenOfMany(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		keepLastSeen(t, m, time.Hour)
		var uids []schema.UID
		for i := range 300 {
			uids = append(uids, schema.UID(fmt.Sprintf("user %d", i)))
			m.Gateways[i%2].Enter(uids[i]).Kill()
		}
		m.Pass(time.Second)
		seen, err := m.LastSeen(t.Context(), uids)
		require.NoError(t, err)
		for i, s := range seen {
			require.NoError(t, s.Err)
			require.Equal(t, uids[i], s.UID)
			require.NotZero(t, s.At, s.UID)
		}
	})
}

// TestLastSeenBucketGone deletes the bucket while it is on: look-ups say so and are none the slower,
// what comes in the minute before it is there again is written.
func TestLastSeenBucketGone(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		keepLastSeen(t, m, time.Hour)
		dropLastSeen(t, m)
		told := m.Follow()
		at := time.Now()
		lost := blink(m, "lost", 1)
		require.Equal(t, lost, told.Of("lost"))
		u := lastSeen(m, "lost")
		require.Equal(t, schema.Offline, u.State)
		require.Contains(t, u.LastSeenWhy, "its bucket is not there")
		require.Less(t, time.Since(at), 2*time.Second)
		m.Pass(5 * time.Minute)
		blink(m, "kept", 1)
		m.Pass(30 * time.Second)
		require.NoError(t, m.Bucket().KeepLastSeen(t.Context(), time.Hour))
		m.Pass(5 * time.Second)
		require.NotEmpty(t, lastSeen(m, "kept").LastSeen)
		require.Empty(t, lastSeen(m, "lost").LastSeen)
		require.Empty(t, lastSeen(m, "lost").LastSeenWhy)
	})
}

// TestLastSeenIsNotAnswered: a reader who is not allowed to, and so hears nothing, waits a second in
// all, and has the look-up.
func TestLastSeenIsNotAnswered(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		keepLastSeen(t, m, time.Hour)
		blink(m, "alice", 1)
		m.Asker.Lose("$JS.API.DIRECT.GET.>", -1)
		at := time.Now()
		uids := make([]schema.UID, 500)
		for i := range uids {
			uids[i] = "alice"
		}
		var reply schema.LookupReply
		code, _ := m.Call("lookup", schema.LookupCall{UIDs: uids, LastSeen: true}, &reply)
		require.Empty(t, code)
		require.LessOrEqual(t, time.Since(at), time.Second+time.Millisecond)
		for _, u := range reply.Results {
			require.Equal(t, schema.Offline, u.State)
			require.Contains(t, u.LastSeenWhy, "read last seen")
		}
		_, err := m.LastSeen(t.Context(), []schema.UID{""})
		require.ErrorIs(t, err, schema.ErrBad)
		m.Delivery.Close()
		_, err = m.LastSeen(t.Context(), uids)
		require.ErrorIs(t, err, delivery.ErrClosed)
	})
}
