package authority_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// bucketLost are the ways in which a process may reach everybody but the bucket.
var bucketLost = map[string]func(l *bubble.Link) []*bubble.Rule{
	"requests are lost": func(l *bubble.Link) []*bubble.Rule {
		return []*bubble.Rule{l.Lose("$KV.>", -1), l.Lose("$JS.API.>", -1)}
	},
	"answers are lost": func(l *bubble.Link) []*bubble.Rule {
		return []*bubble.Rule{l.LoseAnswer("$KV.>", -1), l.LoseAnswer("$JS.API.>", -1)}
	},
	"nothing can be written": func(l *bubble.Link) []*bubble.Rule { return []*bubble.Rule{l.Lose("$KV.>", -1)} },
}

// restore gives the bucket back.
func restore(rules []*bubble.Rule) {
	for _, r := range rules {
		r.Remove()
	}
}

// A worker that has no proof of its lease lets nobody in, by register or by commit, and says when to come
// back. It answers all else, marked suspect, for as long as it hears of no successor; with the bucket it
// is itself again, under the same boot and fences.
func TestAWorkerWithoutProofOfItsLease(t *testing.T) {
	for name, lose := range bucketLost {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				w := startWorker(t, s, "a-1")
				g := startGateway(t, s, "gw-1")
				uid := uidOf(0)
				r := g.login(t, uid, "phone")
				leaver := g.login(t, uidOf(1), "phone")
				stays := target(t, g, 0)
				boot := w.Me()
				rules := lose(w.link)
				token := g.tokenOfTheLastInTime(t, w, stays, r)

				refused := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, schema.ErrUnavailable)
					var refusal *client.Refusal
					require.ErrorAs(t, err, &refusal)
					require.Equal(t, 500*time.Millisecond, refusal.Head.RetryAfter)
					require.True(t, refusal.Head.Suspect)
				}
				_, err := g.Commit(t.Context(), stays, g.me, token)
				refused(err)
				refused(g.try(t, stays, uid))
				for range 60 { // far beyond the lease: where nobody can write, nobody can succeed
					time.Sleep(10 * time.Second)
					refused(g.try(t, stays, uid))
					exceptions, err := g.Touch(t.Context(), stays, g.me, []schema.Touched{{Session: r.Session}})
					require.NoError(t, err)
					require.Empty(t, exceptions)
					found := g.Lookup(t.Context(), []schema.UID{uid, uidOf(0) + "-not"})
					require.Equal(t, []schema.UserState{schema.Online, schema.Offline}, []schema.UserState{found[0].State, found[1].State})
					require.True(t, found[0].Suspect && found[1].Suspect)
					require.Greater(t, found[0].Routes[0].TTL, 85*time.Second, "a touch is a renewal")
				}
				g.seq++
				left, err := g.Unregister(t.Context(), target(t, g, 1), g.me, []schema.Leave{{UID: leaver.UID, Session: leaver.Session, Seq: g.seq}})
				require.NoError(t, err)
				require.Equal(t, []schema.Code{schema.CodeOK}, left)
				require.Equal(t, schema.Offline, g.state(t, leaver.UID))
				g.seq++
				r.Seq = g.seq
				told, err := g.Sync(t.Context(), stays, g.me, false, []schema.Route{r})
				require.NoError(t, err)
				require.True(t, told.Head.Suspect)
				require.Equal(t, schema.CodeOK, told.Verdicts[0].Code)

				restore(rules)
				bubble.Until(t, 10*time.Second, "the lease is proven", w.Ready)
				require.Equal(t, boot, w.Me())
				require.Equal(t, stays, target(t, g, 0))
				require.NoError(t, g.try(t, stays, uid))
				require.False(t, g.Lookup(t.Context(), []schema.UID{uid})[0].Suspect)
			})
		})
	}
}

// tokenOfTheLastInTime logs the user's device in again and again, each in conflict with the one that is
// there, until the worker refuses that for want of a lease, and gives what the last of them was told to
// commit with: its deadline is not over.
func (g *gateway) tokenOfTheLastInTime(t *testing.T, w *worker, to schema.Target, old schema.Route) (last schema.CommitEntry) {
	t.Helper()
	for {
		g.seq++
		r := old
		r.Session, r.Seq = schema.NewSessionNum(uint32(g.seq), 1), g.seq
		result, err := g.Register(t.Context(), to, schema.Login{Route: r, Left: 5 * time.Second})
		if !w.Ready() {
			require.ErrorIs(t, err, schema.ErrUnavailable)
			return last
		}
		require.NoError(t, err)
		require.Equal(t, schema.CodeConflict, result.Code)
		last = schema.CommitEntry{UID: r.UID, Session: r.Session, Token: result.Token,
			Ends: []schema.End{{Owner: g.me, Session: old.Session, How: schema.EndAnswered}}}
		time.Sleep(300 * time.Millisecond)
	}
}

// A suspect worker that hears of its successor answers for the slot no more, but says whom to ask.
func TestASuspectWorkerYieldsToItsSuccessor(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, uidOf(0), "phone")
		before := target(t, g, 0)
		first.link.Lose("$KV.>", -1)
		time.Sleep(25 * time.Second)
		require.False(t, first.Ready())
		head := schema.SlotHead{Target: before, Seen: before.Fence, From: g.me}
		touch := &schema.Touch{Head: head, Sessions: []schema.Touched{{Session: r.Session}}}
		var answer schema.TouchAnswer
		g.ask(t, before, subjects.Touch, touch, &answer)
		require.Equal(t, schema.CodeOK, answer.Head.Code)
		require.True(t, answer.Head.Suspect)

		second := startWorker(t, s, "a-2")
		bubble.Until(t, time.Minute, "the other has the slot", func() bool { return target(t, g, 0).Authority == second.Me() })
		time.Sleep(10 * time.Millisecond)
		g.ask(t, before, subjects.Touch, touch, &answer)
		require.Equal(t, schema.CodeMoved, answer.Head.Code)
		require.Equal(t, second.Me(), answer.Head.Owner.Authority)
		var login schema.RegisterAnswer
		g.ask(t, before, subjects.Register, &schema.Register{Head: head, Logins: []schema.Login{{Route: r, Left: time.Second}}}, &login)
		require.Equal(t, schema.CodeMoved, login.Head.Code)
	})
}

// ask sends a request to a target, whatever is known of its successor.
func (g *gateway) ask(t *testing.T, to schema.Target, op subjects.SlotOp, request, answer schema.Message) {
	t.Helper()
	data, err := schema.Marshal(request)
	require.NoError(t, err)
	m, err := g.nc.RequestWithContext(t.Context(), subjects.Prefix("").Slot(to.Slot, to.Fence, op), data)
	require.NoError(t, err)
	require.NoError(t, schema.Unmarshal(m.Data, answer))
}
