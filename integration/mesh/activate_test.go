package mesh_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// thinking is how long the authenticator of these tests takes.
const thinking = 100 * time.Millisecond

// thoughtful takes its time.
type thoughtful struct{ gateway.Authenticator }

func (a thoughtful) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Identity, error) {
	select {
	case <-time.After(thinking):
	case <-ctx.Done():
		return gateway.Identity{}, context.Cause(ctx)
	}
	return a.Authenticator.Authenticate(ctx, c)
}

// step is a moment in the middle of a login, at which its socket breaks.
type step struct {
	name string
	// arm has breaking called at that moment of a login on a gateway.
	arm func(g *mesh.Gateway, breaking func())
	// reaches tells whether a login gets there at all, beside a conflict, and across gateways.
	reaches func(conflict, across bool) bool
	// displaced is how the session in the way ends by then: stays, replaced, or "" where it depends
	// on what comes first, the break or the next step.
	displaced fate
}

func always(bool, bool) bool                { return true }
func conflicting(c, _ bool) bool            { return c }
func conflictingAcross(c, across bool) bool { return c && across }

// sent breaks the socket when a message is on its way.
func sent(pattern string) func(*mesh.Gateway, func()) {
	return func(g *mesh.Gateway, breaking func()) { g.Control.Then(pattern, breaking) }
}

// underway breaks the socket while a message is on its way, which comes after all that is said of
// the session's end, and when the user is back.
func underway(pattern string) func(*mesh.Gateway, func()) {
	return func(g *mesh.Gateway, breaking func()) {
		g.Control.Delay(pattern, 1, 3*time.Second)
		time.AfterFunc(thinking+10*time.Millisecond, breaking)
	}
}

// unheard breaks the socket between a message's being obeyed and the gateway's hearing of it.
func unheard(pattern string) func(*mesh.Gateway, func()) {
	return func(g *mesh.Gateway, breaking func()) {
		g.Control.Then(pattern, func() {
			late := g.Control.DelayIn("_INBOX.>", -1, 20*time.Millisecond)
			time.AfterFunc(10*time.Millisecond, func() { breaking(); late.Remove() })
		})
	}
}

var steps = []step{
	{"hello said", func(_ *mesh.Gateway, breaking func()) { time.AfterFunc(thinking/2, breaking) }, always, stays},
	{"register sent", sent("slot.*.*.register"), always, ""},
	{"register under way", underway("slot.*.*.register"), always, stays},
	{"register done", unheard("slot.*.*.register"), always, stays},
	{"kick sent", sent("kick.>"), conflictingAcross, replaced},
	{"kick done", unheard("kick.>"), conflictingAcross, replaced},
	{"commit sent", sent("slot.*.*.commit"), conflicting, replaced},
	{"commit under way", underway("slot.*.*.commit"), conflicting, replaced},
	{"commit done, not connected", unheard("slot.*.*.commit"), conflicting, replaced},
}

// TestClosedWhileActivating breaks a socket at each step of its login. No trace of it stays, the
// session in its way is gone or is not, but for its client as for everybody else, and the user comes
// in at once afterwards.
func TestClosedWhileActivating(t *testing.T) {
	auth := func(c *gateway.Config) { c.Auth = thoughtful{c.Auth} }
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Gateway: auth}, func(t *testing.T, m *mesh.Mesh) {
				for n, second := range m.Gateways {
					for _, conflict := range []bool{false, true} {
						if s.reaches(conflict, n > 0) {
							uid := schema.UID(fmt.Sprintf("%s on %s, conflict %v", s.name, second.Node, conflict))
							s.play(t, m, uid, second, conflict)
						}
					}
				}
			})
		})
	}
}

func (s step) play(t *testing.T, m *mesh.Mesh, uid schema.UID, second *mesh.Gateway, conflict bool) {
	device := mesh.As("d1", "app", schema.Master)
	var old *mesh.Socket
	if conflict {
		old = m.Gateways[0].Enter(uid, device)
	}
	broken := make(chan struct{})
	fresh := second.Dial()
	s.arm(second, func() { fresh.Kill(); close(broken) })
	fresh.Hello(uid, device)
	<-broken
	require.Equal(t, schema.CloseAbnormal, fresh.Ended().Code, uid)
	require.Empty(t, fresh.Frames(), uid)
	m.Pass(time.Second)
	if conflict {
		s.checkDisplaced(t, old, uid)
	}
	m.Truth(uid)
	said, err := m.Explain(t.Context(), uid)
	require.NoError(t, err)
	for _, r := range said.Routes {
		require.Equal(t, "active", r.State, uid)
	}
	for _, g := range m.Gateways {
		began := time.Now()
		at := g.Enter(uid, mesh.As("d2", "app", schema.Master)).Connected().At
		require.Equal(t, thinking, at.Sub(began), "%s: nothing of the broken login is in the way", uid)
	}
	m.Truth(uid)
	m.Pass(5 * time.Second) // what was under way has come
	m.Truth(uid)
}

func (s step) checkDisplaced(t *testing.T, old *mesh.Socket, uid schema.UID) {
	if !old.Open() {
		require.Equal(t, schema.CloseReplaced, old.Ended().Code, uid)
	}
	if s.displaced != "" {
		require.Equal(t, s.displaced == stays, old.Open(), uid)
	}
}
