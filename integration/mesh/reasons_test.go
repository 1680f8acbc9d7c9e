package mesh_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// mortal authenticates everybody, for two minutes, by a token whose id is its bearer.
type mortal struct{ gateway.Insecure }

func (a mortal) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Identity, error) {
	id, err := a.Insecure.Authenticate(ctx, c)
	id.Expires, id.TokenID = time.Now().Add(2*time.Minute), string(id.UID)
	return id, err
}

// TestReasonsOfEvents: whatever ends a session, or puts another in its place, is the event's reason, and
// the event says how many devices are left.
func TestReasonsOfEvents(t *testing.T) {
	for name, c := range map[string]struct {
		befalls func(m *mesh.Mesh, phone *mesh.Socket)
		within  time.Duration
		want    []string
		left    int
	}{
		"leaves":         {func(_ *mesh.Mesh, s *mesh.Socket) { s.Leave() }, time.Second, []string{"offline leave"}, 0},
		"is cut off":     {func(_ *mesh.Mesh, s *mesh.Socket) { s.Kill() }, time.Second, []string{"offline leave"}, 0},
		"says nothing":   {func(_ *mesh.Mesh, s *mesh.Socket) { s.Link.Cut() }, time.Minute, []string{"offline timeout"}, 0},
		"token ends":     {func(*mesh.Mesh, *mesh.Socket) {}, 2 * time.Minute, []string{"offline expired"}, 0},
		"gateway drains": {func(m *mesh.Mesh, _ *mesh.Socket) { require.NoError(m.T, m.Gateways[0].Stop()) }, time.Second, []string{"offline drained"}, 0},
		"gateway dies":   {func(m *mesh.Mesh, _ *mesh.Socket) { m.Gateways[0].Kill() }, leaseTime, []string{"offline owner_lost"}, 0},
		"same device": {func(m *mesh.Mesh, _ *mesh.Socket) {
			m.Gateways[1].Enter("alice", mesh.As("phone", "app", schema.Master))
		}, time.Second, []string{"removed replaced", "added connect"}, 1},
		"another one": {func(m *mesh.Mesh, _ *mesh.Socket) { m.Gateways[1].Enter("alice", mesh.As("new", "app", schema.Master)) }, time.Second, []string{"removed kicked", "added connect"}, 1},
		"one of two goes": {func(m *mesh.Mesh, s *mesh.Socket) {
			m.Gateways[1].Enter("alice", mesh.As("desk", "web", schema.Slave))
			s.Leave()
		}, time.Second, []string{"added connect", "removed leave"}, 1},
		"operator": {func(m *mesh.Mesh, _ *mesh.Socket) {
			_, err := m.Kick(context.Background(), delivery.KickRequest{UID: "alice"})
			require.NoError(m.T, err)
		}, time.Second, []string{"offline operator"}, 0},
		"revoked": {func(m *mesh.Mesh, _ *mesh.Socket) {
			_, err := m.Revoke(context.Background(), delivery.RevokeRequest{UID: "alice", TokenID: "alice"})
			require.NoError(m.T, err)
		}, time.Second, []string{"offline operator"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Config: mesh.Prompt, Gateway: func(c *gateway.Config) { c.Auth = mortal{} }}, func(t *testing.T, m *mesh.Mesh) {
				told := m.Follow()
				phone := m.Gateways[0].Enter("alice", mesh.As("phone", "app", schema.Master))
				c.befalls(m, phone)
				m.Pass(c.within + 5*time.Second)
				require.Equal(t, append([]string{"online connect"}, c.want...), told.Of("alice"))
				require.Equal(t, c.left, told.Last("alice").Left)
				require.Len(t, m.Find("alice").Routes, c.left)
			})
		})
	}
}
