package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	// grace is the default one.
	grace = 5 * time.Second
	// pass is the longest time between two looks of an authority at what falls due.
	pass = 250 * time.Millisecond
)

// seen gives the state that a look-up says.
func seen(t *testing.T, m *mesh.Mesh, uid schema.UID) schema.UserState {
	t.Helper()
	return m.Find(uid).State
}

// TestReturnInTime has users come back within the grace, on the same gateway and on another: nobody
// hears of an offline, while look-ups say what is.
func TestReturnInTime(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		for n, uid := range []schema.UID{"alice", "bob"} {
			m.Gateways[0].Enter(uid).Kill()
			m.Pass(3 * time.Second)
			require.Equal(t, schema.Offline, seen(t, m, uid), "a look-up does not wait")
			require.Equal(t, []string{"online connect"}, told.Of(uid))
			back := m.Gateways[n].Enter(uid)
			require.Equal(t, schema.Online, seen(t, m, uid))
			m.Still()
			require.Equal(t, []string{"online connect", "removed leave", "added connect"}, told.Of(uid))
			require.Equal(t, 1, told.Last(uid).Left)
			require.Equal(t, string(session(back)), string(told.Last(uid).Route.Session))
		}
		m.Pass(time.Minute)
		require.Len(t, told.Of("alice"), 3)
		m.Truth("alice", "bob")
	})
}

// TestNoReturn has users stay away, whatever made them go: each is said to be offline once, when the
// grace is over, and comes online again after that.
func TestNoReturn(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		for uid, end := range map[schema.UID]func(*mesh.Socket){
			"leave":    func(s *mesh.Socket) { s.Kill() },
			"operator": func(*mesh.Socket) { m.Kick(t.Context(), schema.KickCall{UID: "operator"}) },
		} {
			s := m.Gateways[0].Enter(uid)
			at := time.Now()
			end(s)
			m.Pass(grace - time.Millisecond)
			require.Equal(t, []string{"online connect"}, told.Of(uid))
			m.Pass(2 * time.Second)
			require.Equal(t, []string{"online connect", "offline " + string(uid)}, told.Of(uid))
			last := told.Last(uid)
			require.Zero(t, last.Left)
			require.LessOrEqual(t, last.Came.Sub(at), grace+pass+time.Second, "a kicked session's route may go a second later")
			m.Gateways[1].Enter(uid)
			m.Still()
			require.Equal(t, []string{"online connect", "offline " + string(uid), "online connect"}, told.Of(uid))
		}
	})
}

// TestSecondSessionIsNotHeldBack: the grace is of the last one alone.
func TestSecondSessionIsNotHeldBack(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		phone := m.Gateways[0].Enter("alice", mesh.As("phone", "app", schema.Master))
		desk := m.Gateways[1].Enter("alice", mesh.As("desk", "web", schema.Slave))
		phone.Kill()
		m.Still()
		require.Equal(t, []string{"online connect", "added connect", "removed leave"}, told.Of("alice"))
		desk.Kill()
		m.Still()
		require.Len(t, told.Of("alice"), 3)
		m.Pass(grace + pass)
		require.Equal(t, "offline leave", told.Of("alice")[3])
	})
}

// TestGraceChangesLive turns it off, and what is held back comes, then what follows is told at once.
func TestGraceChangesLive(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		m.Gateways[0].Enter("alice").Kill()
		m.Configure(mesh.Prompt)
		require.Equal(t, []string{"online connect", "offline leave"}, told.Of("alice"))
		m.Gateways[0].Enter("alice").Kill()
		m.Still()
		require.Equal(t, []string{"online connect", "offline leave", "online connect", "offline leave"}, told.Of("alice"))
	})
}

// TestFailoverInTheGrace kills the authority that holds offlines back. The next one tells of nothing
// that it has not seen: neither who has left nor who is back, but that the slots have to be looked
// up again, and a watcher's view is then the truth.
func TestFailoverInTheGrace(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		var uids []schema.UID
		var sockets []*mesh.Socket
		for i := range 20 {
			uids = append(uids, schema.UID(fmt.Sprintf("user %d", i)))
			sockets = append(sockets, m.Gateways[i%2].Enter(uids[i]))
		}
		m.Pass(leaseTime)
		w := follow(m, 0, uids...)
		w.said()
		told := m.Follow()
		for _, s := range sockets {
			s.Kill()
		}
		m.Pass(time.Second)
		m.Authorities[0].Kill()
		m.Authorities[1].Kill()
		m.StartAuthority("a-3")
		for i, uid := range uids[:10] {
			m.Gateways[i%2].Connect(uid, "phone")
		}
		m.Served(leaseTime + time.Minute)
		m.Pass(time.Minute)
		m.Truth(uids...)
		for _, uid := range uids {
			for _, event := range told.Of(uid) {
				require.Equal(t, "online connect", event, "%s: but for who comes after the rebuild, nothing is told", uid)
			}
		}
		require.Empty(t, w.wrong(uids))
		require.Empty(t, w.back)
	})
}

// TestWatchInTheGrace has a watcher begin, and another one look up again, while an offline is held
// back: what they know already is not told again, and a return is told once.
func TestWatchInTheGrace(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		early := follow(m, 0, "alice", "bob")
		early.said()
		m.Gateways[0].Enter("alice").Kill()
		m.Gateways[0].Enter("bob").Kill()
		require.Equal(t, []string{"changed alice online 1 connect", "changed bob online 1 connect"}, early.said())
		late := follow(m, 0, "alice", "bob")
		require.Equal(t, []string{"snapshot alice offline 0 ", "snapshot bob offline 0 "}, late.said())
		client := m.Gateways[1].Enter("carol")
		client.Send(schema.ClientFrame{Type: schema.TypeWatch, ID: "w", UIDs: []schema.UID{"alice", "bob"}})
		m.Pass(time.Second)
		m.Gateways[1].Enter("alice")
		m.Pass(20 * time.Second)
		require.Equal(t, []string{"changed alice online 0 leave", "changed alice online 1 connect", "changed bob offline 0 leave"}, early.said())
		require.Equal(t, []string{"changed alice online 1 connect"}, late.said(), "bob's offline is no news")
		for _, w := range []*watcher{early, late} {
			require.Empty(t, w.wrong([]schema.UID{"alice", "bob"}))
			require.Empty(t, w.back)
		}
		var states []string
		for _, f := range client.Frames() {
			for _, u := range f.Users {
				if u.UID == "alice" {
					states = append(states, fmt.Sprintf("%s %d", u.State, len(u.Devices)))
				}
			}
		}
		require.Equal(t, []string{"offline 0", "online 1"}, states)
	})
}
