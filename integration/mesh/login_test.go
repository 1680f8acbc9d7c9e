package mesh_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestAuthorityDiesInALogin kills the authority while a device logs in at another gateway: before it hears of
// the login, after it has answered, while the old session is kicked, before it commits, and after it has
// committed and nobody was told. A kick that is lost is repeated. Where the end of a connection is told, the login comes in within its
// deadline; else it is refused with a hint. The old session hears the truth, and only if it is out.
func TestAuthorityDiesInALogin(t *testing.T) {
	for name, c := range map[string]struct {
		hold   func(second *mesh.Gateway) *bubble.Rule
		kicked bool // the old session, by then
	}{
		"register lost":      {func(g *mesh.Gateway) *bubble.Rule { return g.Control.Lose("slot.*.*.register", 1) }, false},
		"register unheard":   {func(g *mesh.Gateway) *bubble.Rule { return g.Control.LoseAnswer("slot.*.*.register", 1) }, false},
		"kick lost":          {func(g *mesh.Gateway) *bubble.Rule { return g.Control.Lose("kick.>", 1) }, true},
		"kick answered late": {func(g *mesh.Gateway) *bubble.Rule { return g.Control.DelayAnswer("kick.>", 1, 50*time.Millisecond) }, true},
		"commit lost":        {func(g *mesh.Gateway) *bubble.Rule { return g.Control.Lose("slot.*.*.commit", 1) }, true},
		"commit unheard":     {func(g *mesh.Gateway) *bubble.Rule { return g.Control.LoseAnswer("slot.*.*.commit", 1) }, true},
	} {
		for how, proofs := range map[string]bool{"told": true, "not told": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				o := mesh.Options{Authorities: 2, Config: mesh.Prompt}
				if proofs {
					o.Server.Config = bubble.DisconnectEvents
				}
				mesh.Run(t, o, func(t *testing.T, m *mesh.Mesh) {
					old := m.Gateways[0].Enter("alice", mesh.As("d1", "app", schema.Master))
					m.Pass(leaseTime)
					rule := c.hold(m.Gateways[1])
					began := time.Now()
					fresh := m.Gateways[1].Hello("alice", mesh.As("d1", "app", schema.Master))
					m.Await(time.Second, "the message is met", func() bool { return rule.Hits() > 0 })
					m.Still()
					for _, a := range m.Authorities {
						if a.Me() == m.Find("alice").Target.Authority {
							a.Kill()
							break
						}
					}
					if proofs {
						m.Await(5*time.Second, "the new one is in", func() bool { _, in := fresh.Current(); return in })
						require.Equal(t, schema.CloseReplaced, old.Ended().Code)
					} else {
						end := fresh.Ended()
						require.Equal(t, schema.CloseNotNow, end.Code)
						require.LessOrEqual(t, end.At.Sub(began), 5100*time.Millisecond)
						require.Positive(t, fresh.Frames()[0].RetryAfterMS)
						require.Equal(t, !c.kicked, old.Open())
						if c.kicked {
							require.Equal(t, schema.CloseReplaced, old.Ended().Code)
						}
					}
					m.Served(leaseTime + 10*time.Second)
					m.Truth("alice")
					again := m.Gateways[0].Enter("alice", mesh.As("d1", "app", schema.Master))
					m.Truth("alice")
					again.Leave()
					m.Pass(long)
					m.Truth("alice")
				})
			})
		}
	}
}
