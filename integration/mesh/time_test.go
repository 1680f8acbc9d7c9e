package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

const ttl = 90 * time.Second

// TestTouchesAreNotAnswered lets a gateway's touches go unanswered, all of them: its sessions'
// routes go a TTL after their last sign of life that was told of, and their sockets are closed
// within a flush of that, so that none lives on that nobody can reach. Once touches are answered
// again, all is as before.
func TestTouchesAreNotAnswered(t *testing.T) {
	for name, begin := range map[string]func(l *bubble.Link) *bubble.Rule{
		"lost":         func(l *bubble.Link) *bubble.Rule { return l.Lose("slot.*.*.touch", -1) },
		"answers lost": func(l *bubble.Link) *bubble.Rule { return l.LoseAnswer("slot.*.*.touch", -1) },
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
				one, two := m.Gateways[0], m.Gateways[1]
				told := m.Follow()
				d := one.Login("alice", "phone")
				idle := one.Enter("bob") // answers pings, says nothing else
				two.Login("carol", "phone")
				at := time.Now()
				rule := begin(one.Control)
				require.Equal(t, schema.CloseMeshLost, idle.Ended().Code)
				closed := idle.Ended().At.Sub(at)
				require.GreaterOrEqual(t, closed, ttl)
				require.LessOrEqual(t, closed, ttl+heartbeat/3+time.Second)
				if name == "lost" {
					gone := told.Last("bob")
					require.Equal(t, schema.ReasonTimeout, gone.Reason)
					require.InDelta(t, ttl, gone.Came.Sub(at), float64(2*time.Second))
				}
				m.Await(heartbeat, "alice was sent away", func() bool { return len(codes(d)) > 0 })
				require.Equal(t, []schema.CloseCode{schema.CloseMeshLost}, codes(d))
				rule.Remove()
				m.Await(10*time.Second, "alice is back", func() bool { return m.Find("alice").State == schema.Online })
				m.Pass(2 * ttl)
				require.Len(t, codes(d), 1, "renewed as ever")
				m.Truth("alice", "bob", "carol")
			})
		})
	}
}

// TestTimeToLive watches routes for ten minutes: what a route has left of its time goes down and up
// with signs of life, and is never less than half.
func TestTimeToLive(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		one := m.Gateways[0]
		one.Login("alice", "phone")
		one.Enter("bob")
		for range 10 * 60 {
			m.Pass(time.Second)
			for _, uid := range []schema.UID{"alice", "bob"} {
				found := m.Find(uid)
				require.Len(t, found.Routes, 1)
				require.Greater(t, found.Routes[0].TTL, ttl/2)
				require.LessOrEqual(t, found.Routes[0].TTL, ttl)
			}
		}
		require.Equal(t, []string{"online connect"}, told.Of("alice"))
		require.Equal(t, []string{"online connect"}, told.Of("bob"))
	})
}

// TestSignsOfLife keeps sessions alive by one kind of frame each, none of them an answer to the
// gateway's pings.
func TestSignsOfLife(t *testing.T) {
	signs := map[schema.UID]func(s *mesh.Socket){
		"ping":         func(s *mesh.Socket) { s.Send(schema.ClientFrame{Type: schema.TypePing}) },
		"ack":          func(s *mesh.Socket) { s.Send(schema.ClientFrame{Type: schema.TypeAck, Acks: []uint64{1}}) },
		"send":         func(s *mesh.Socket) { s.Send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")}) },
		"unknown type": func(s *mesh.Socket) { s.Text(`{"type":"dance"}`) },
		"bad field":    func(s *mesh.Socket) { s.Text(`{"type":"ping","id":7}`) },
		"ws ping":      func(s *mesh.Socket) { s.Ping() },
		"ws pong":      func(s *mesh.Socket) { s.Pong() },
		"nothing":      func(s *mesh.Socket) {},
	}
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		at := time.Now()
		sockets := map[schema.UID]*mesh.Socket{}
		var users []schema.UID
		for uid := range signs {
			sockets[uid] = m.Gateways[0].Enter(uid)
			sockets[uid].Deaf()
			users = append(users, uid)
		}
		for range 20 {
			m.Pass(heartbeat - time.Second)
			for uid, sign := range signs {
				sign(sockets[uid])
				if uid != "nothing" {
					require.Greater(t, m.Find(uid).Routes[0].TTL, ttl/2, uid)
				}
			}
		}
		m.Truth(users...)
		for uid, s := range sockets {
			require.Equal(t, uid != "nothing", s.Open(), uid)
		}
		end := sockets["nothing"].Ended()
		require.Equal(t, schema.CloseHeartbeat, end.Code)
		require.InDelta(t, 2*heartbeat, end.At.Sub(at), float64(time.Microsecond))
	})
}

// TestPendingDies has a gateway vanish in the middle of a login. The login that it has begun is in
// nobody's way for longer than its own 5 s, and is never seen.
func TestPendingDies(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 3}, func(t *testing.T, m *mesh.Mesh) {
		one, two, three := m.Gateways[0], m.Gateways[1], m.Gateways[2]
		old := one.Enter("alice", mesh.As("d1", "app", schema.Master))
		one.Control.LoseIn("kick.>", 1)
		two.Control.Then("kick.>", two.Cut)
		at := time.Now()
		two.Hello("alice", mesh.As("d2", "app", schema.Master))
		m.Pass(time.Second)
		require.Equal(t, []string{"pending", "active"}, states(t, m))
		require.Equal(t, m.Sessions("alice"), []schema.SessionID{session(old)})
		fresh := three.Login("alice", "d3", mesh.Master)
		took := time.Since(at)
		require.GreaterOrEqual(t, took, 5*time.Second-100*time.Millisecond, "what is left of a login's time travels in milliseconds")
		require.Less(t, took, 8*time.Second)
		require.Equal(t, schema.CloseKicked, old.Ended().Code)
		m.Pass(2 * time.Second)
		require.Equal(t, []string{"active"}, states(t, m))
		two.Heal()
		m.Pass(ttl)
		m.Truth("alice")
		require.Len(t, m.Sessions("alice"), 1)
		require.Equal(t, fresh.Online().Session, m.Sessions("alice")[0])
	})
}

func session(s *mesh.Socket) schema.SessionID {
	id, _ := s.Current()
	return id
}

// states gives what the authority holds of alice, the newest first.
func states(t *testing.T, m *mesh.Mesh) (states []string) {
	t.Helper()
	said, err := m.Explain(t.Context(), "alice")
	require.NoError(t, err)
	for _, r := range said.Routes {
		states = append(states, r.State)
	}
	return states
}

// TestTimeToLiveOfThreeHeartbeats has every process refuse, by name, to start with settings under
// which a route could go while its client lives.
func TestTimeToLiveOfThreeHeartbeats(t *testing.T) {
	short := schema.DefaultConfig()
	short.TTLMS = 3*short.HeartbeatMS - 1
	t.Run("who makes the mesh", func(t *testing.T) {
		bubble.Run(t, func(t *testing.T, s *bubble.Server) {
			nc, _ := s.Dial("authority/a-1")
			_, err := lease.Open(t.Context(), nc, lease.Options{Create: true, Memory: true, Defaults: short})
			require.ErrorIs(t, err, schema.ErrConfig)
			require.ErrorContains(t, err, "ttl is 1m29.999s: it takes at least 3 heartbeats, 1m30s")
		})
	})
	t.Run("who joins it", func(t *testing.T) {
		mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
			m.Overwrite("config", short)
			for _, role := range []string{"authority", "gateway"} {
				nc, _ := m.Server.Dial(fmt.Sprintf("%s/late", role))
				_, err := lease.Open(t.Context(), nc, lease.Options{Create: role == "authority", Memory: true})
				require.ErrorIs(t, err, schema.ErrConfig, role)
				require.ErrorContains(t, err, "ttl is 1m29.999s: it takes at least 3 heartbeats, 1m30s", role)
			}
			m.Pass(time.Minute)
			m.Gateways[0].Login("alice", "phone")
			m.Truth("alice") // those that run keep what they have
		})
	})
}
