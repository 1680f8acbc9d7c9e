package sessions_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Bounds of what a killed gateway may cost.
const (
	loginAgain     = 2500 * time.Millisecond // a device's new login elsewhere, from its dial
	serviceAgain   = 2 * time.Second         // a restart under the same name, from its start to a login
	ghostsOutlives = 200 * time.Millisecond  // old routes after that
)

// TestGatewayKilled kills a gateway of 300 users: 200 come back to the other one, with the same
// devices; the rest are waited for until the gateway is back under its name.
func TestGatewayKilled(t *testing.T) {
	m := newMesh(t, steady...)
	killed, other := m.gateways[0], m.gateways[1]
	movers, stayers := m.loginMany(killed, "mover", 200), m.loginMany(killed, "stayer", 100)
	killed.Signal(syscall.SIGKILL)
	killed.Wait()
	require.NoError(t, allEnded(slices.Concat(movers, stayers)))

	again := m.loginMany(other, "mover", 200)
	t.Logf("200 devices of a killed gateway are in at the other after %v", slowest(t, again, loginAgain))
	requireSeen(t, m, again)
	requireSeen(t, m, stayers) // nobody can know better before the lease ends

	begun := time.Now()
	restarted := m.startGateway(killed.node, killed.address)
	restarted.serves()
	require.NoError(t, m.connect(restarted, "newcomer", phone).login())
	took := time.Since(begun)
	require.Less(t, took, serviceAgain)
	ghosts := uidsOf(stayers)
	m.eventually("old routes are gone", func() bool {
		return !slices.ContainsFunc(m.found(ghosts), func(u schema.UserReply) bool { return u.State != schema.Offline })
	})
	outlived := time.Since(begun) - took
	t.Logf("restarted under its name: in service after %v, old routes gone %v later", took.Round(time.Millisecond), outlived.Round(time.Millisecond))
	require.Less(t, outlived, ghostsOutlives)
	requireSeen(t, m, again)
}

// loginMany logs in a device of each of n users at the same time.
func (m *mesh) loginMany(g *gateway, family string, n int) []*device {
	m.t.Helper()
	list := make([]*device, n)
	for i := range list {
		list[i] = m.connect(g, schema.UID(fmt.Sprintf("%s-%d", family, i)), phone)
	}
	for _, d := range list {
		require.NoError(m.t, d.login())
	}
	return list
}

func allEnded(list []*device) error {
	for _, d := range list {
		if _, err := d.ended(); err != nil {
			return err
		}
	}
	return nil
}

// slowest gives the time of the slowest login, from its dial, and requires that it is in bounds.
func slowest(t *testing.T, list []*device, bound time.Duration) (most time.Duration) {
	t.Helper()
	for _, d := range list {
		d.mu.Lock()
		most = max(most, d.in.Sub(d.begun))
		d.mu.Unlock()
	}
	require.Less(t, most, bound)
	return most.Round(time.Millisecond)
}

// requireSeen requires that a look-up shows the login of each device, and nothing else of its user.
func requireSeen(t *testing.T, m *mesh, list []*device) {
	t.Helper()
	for i, u := range m.found(uidsOf(list)) {
		session, _ := list[i].current()
		require.Len(t, u.Routes, 1, "%+v", u)
		require.Equal(t, session, u.Routes[0].Session)
	}
}

func uidsOf(list []*device) []schema.UID {
	uids := make([]schema.UID, len(list))
	for i, d := range list {
		uids[i] = d.uid
	}
	return uids
}
