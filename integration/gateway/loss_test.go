package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// faults are what befalls one message.
var faults = map[string]func(l *bubble.Link, subject string) *bubble.Rule{
	"lost before": func(l *bubble.Link, subject string) *bubble.Rule { return l.Lose(subject, 1) },
	"lost after":  func(l *bubble.Link, subject string) *bubble.Rule { return l.LoseAnswer(subject, 1) },
	"duplicated":  func(l *bubble.Link, subject string) *bubble.Rule { return l.Duplicate(subject, 1) },
	"delayed":     func(l *bubble.Link, subject string) *bubble.Rule { return l.Delay(subject, 1, 3*time.Second) },
}

// TestLosses has each message of a session's life lost, repeated and late, once each: the session
// comes in, moves to the other gateway and goes; nobody is locked out, and nothing of it is left.
func TestLosses(t *testing.T) {
	for _, op := range []string{"register", "commit", "unregister", "touch", "kick"} {
		for name, fault := range faults {
			t.Run(op+" "+name, func(t *testing.T) {
				bubble.Run(t, func(t *testing.T, s *bubble.Server) {
					m := newMesh(t, s, "a-1")
					g1, g2 := startGateway(t, s, "gw-1"), startGateway(t, s, "gw-2")
					subject := "slot.*.*." + op
					if op == "kick" {
						subject = "kick.>"
					}
					one, two := fault(g1.link, subject), fault(g2.link, subject)
					here := func(d *device) {
						t.Helper()
						r := m.find("alice").Routes
						require.Len(t, r, 1)
						require.Equal(t, d.ready().Session, r[0].Session.Outside(r[0].Owner.Boot))
					}
					a := g1.login(t, "alice", "d1")
					here(a)
					b := g2.login(t, "alice", "d1")
					require.Equal(t, schema.CloseReplaced, a.stopped())
					here(b)
					time.Sleep(15 * time.Second)
					here(b)
					require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m"))
					require.NoError(t, b.run.Stop())
					time.Sleep(10 * time.Second)
					require.Equal(t, schema.Offline, m.find("alice").State)
					c := g1.login(t, "alice", "d1")
					here(c)
					require.NoError(t, c.run.Stop())
					time.Sleep(5 * time.Second)
					require.Equal(t, schema.Offline, m.find("alice").State)
					require.NotZero(t, one.Hits()+two.Hits(), "it has happened")
				})
			})
		}
	}
}

// TestPushLost loses pushes: who sent one learns nothing of it, and the next arrives.
func TestPushLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		d := g.login(t, "alice", "d1")
		g.push.LoseIn("push.>", 1)
		r := m.find("alice").Routes[0]
		_, err := m.tryPush(r, "m1")
		require.Error(t, err)
		require.Equal(t, schema.PushWritten, m.pushOne(r, "m2"))
		time.Sleep(time.Second)
		require.Equal(t, 1, d.got())
	})
}

// TestPushAtCommit pushes to sessions at the very moment of their commit, before their gateway has
// the answer: pending, then written, and the route is never called gone.
func TestPushAtCommit(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		const logins = 100
		m := newMesh(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		results := map[schema.PushResult]int{}
		for i := range logins {
			uid := schema.UID(fmt.Sprint("u", i))
			late := g.link.DelayAnswer("slot.*.*.register", 1, time.Duration(i%7)*time.Millisecond)
			d := g.connect(t, uid, "d1")
			var r []schema.Route
			for len(r) == 0 {
				time.Sleep(100 * time.Microsecond)
				r = m.find(uid).Routes
			}
			for tries := 0; ; tries++ {
				result := m.pushOne(r[0], "m")
				results[result]++
				if result == schema.PushWritten {
					break
				}
				require.Equal(t, schema.PushPending, result)
				require.Less(t, tries, 1000)
				time.Sleep(100 * time.Microsecond)
			}
			late.Remove()
			d.ready()
			bubble.Until(t, time.Second, "message", func() bool { return d.got() == 1 })
			require.NoError(t, d.run.Stop())
		}
		require.Equal(t, logins, results[schema.PushWritten])
		require.NotZero(t, results[schema.PushPending])
	})
}
