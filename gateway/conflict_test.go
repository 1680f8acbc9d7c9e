package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// conflict makes the mesh answer registers with a conflict, and gives where commits are noted.
func (st *stage) conflict(list ...schema.Conflict) *[]schema.CommitEntry {
	commits := new([]schema.CommitEntry)
	st.with(func(m *fakeMesh) {
		m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
			return schema.LoginResult{Code: schema.CodeConflict, Token: "t1", Conflicts: list}, nil
		}
		m.onCommit = func(_ schema.Target, e schema.CommitEntry) (schema.LoginResult, error) {
			*commits = append(*commits, e)
			return schema.LoginResult{}, nil
		}
	})
	return commits
}

func gatewayProcess(n schema.NodeID) schema.Process {
	return schema.Process{Node: n, Boot: schema.NewBoot()}
}

// TestConflicts ends conflicts in each of the three ways, side by side, one of them in this process.
func TestConflicts(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		old := st.hello("alice", "old")
		_, num, _ := old.session.Parse()
		answers, gone, silent := gatewayProcess("gw-2"), gatewayProcess("gw-3"), gatewayProcess("gw-4")
		const forced = 2 * time.Second
		list := []schema.Conflict{
			{Owner: st.me(), Session: num, Close: schema.CloseReplaced, Forced: forced},
			{Owner: answers, Session: 1, Close: schema.CloseKicked, Forced: forced},
			{Owner: answers, Session: 2, Close: schema.CloseKicked, Forced: forced},
			{Owner: gone, Session: 3, Close: schema.CloseKicked, Forced: forced},
			{Owner: silent, Session: 4, Close: schema.CloseKicked, Forced: forced},
		}
		commits := st.conflict(list...)
		silentFor := 10 * time.Second
		start := time.Now()
		chased := 0
		st.with(func(m *fakeMesh) {
			m.onKick = func(p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
				require.Equal(t, schema.Revision(100), e[0].Fence)
				switch {
				case p == answers:
					return []schema.Code{schema.CodeOK, schema.CodeUnknown}, nil
				case p == gone:
					time.Sleep(200 * time.Millisecond)
					return nil, client.ErrGone
				case time.Since(start) < silentFor:
					time.Sleep(400 * time.Millisecond)
					return nil, client.ErrTimeout
				}
				chased++
				return make([]schema.Code, len(e)), nil
			}
		})
		d := st.begin("alice")
		d.next(schema.TypeConnected)
		require.InDelta(t, forced.Seconds(), time.Since(start).Seconds(), 0.5)
		require.Equal(t, schema.CloseReplaced, old.code())
		require.Len(t, *commits, 1)
		e := (*commits)[0]
		require.Equal(t, schema.CommitToken("t1"), e.Token)
		how := map[schema.SessionNum]schema.Ending{}
		for _, end := range e.Ends {
			how[end.Session] = end.How
		}
		require.Equal(t, map[schema.SessionNum]schema.Ending{
			num: schema.EndAnswered, 1: schema.EndAnswered, 2: schema.EndAnswered, 3: schema.EndGone, 4: schema.EndForced,
		}, how)
		require.Equal(t, 1, st.g.life.Load().chases.len(), "the silent one is still kicked")
		pass(silentFor + 5*time.Second)
		require.Equal(t, 1, chased)
		require.Zero(t, st.g.life.Load().chases.len())
	})
}

// TestCommitAgain answers commits with what may come: a new conflict is ended too, a dead token and
// an owner that knows a higher fence begin again.
func TestCommitAgain(t *testing.T) {
	other := gatewayProcess("gw-2")
	conflict := schema.Conflict{Owner: other, Session: 1, Close: schema.CloseKicked, Forced: time.Second}
	for name, c := range map[string]struct {
		commit    schema.LoginResult
		err       error
		kick      []schema.Code
		registers int
		commits   int
	}{
		"new conflict": {commit: schema.LoginResult{Code: schema.CodeConflict, Token: "t2", Conflicts: []schema.Conflict{conflict}}, registers: 1, commits: 2},
		"dead token":   {commit: schema.LoginResult{Code: schema.CodeDeadToken}, registers: 2, commits: 2},
		"time-out":     {err: client.ErrTimeout, registers: 1, commits: 2},
		"mismatch":     {err: refused(schema.CodeMismatch, 0), registers: 2, commits: 2},
		"stale kick":   {kick: []schema.Code{schema.CodeStale}, registers: 2, commits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				registers, commits, kicks := 0, 0, 0
				st.with(func(m *fakeMesh) {
					m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
						registers++
						return schema.LoginResult{Code: schema.CodeConflict, Token: "t1", Conflicts: []schema.Conflict{conflict}}, nil
					}
					m.onCommit = func(schema.Target, schema.CommitEntry) (schema.LoginResult, error) {
						commits++
						if commits == 1 && c.kick == nil {
							return c.commit, c.err
						}
						return schema.LoginResult{}, nil
					}
					m.onKick = func(_ schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
						kicks++
						if kicks == 1 && c.kick != nil {
							return c.kick, nil
						}
						return make([]schema.Code, len(e)), nil
					}
				})
				st.begin("alice").next(schema.TypeConnected)
				require.Equal(t, c.registers, registers)
				require.Equal(t, c.commits, commits)
			})
		})
	}
}

// TestKickFarAhead sends kicks with a fence far above all that the bucket's keys have shown: they are
// not obeyed, and no login is refused for it, before the slot's key shows that there are such fences.
func TestKickFarAhead(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.hello("alice", "d1")
		s := st.g.registry.page(0, 1)[0]
		far := schema.KickEntry{UID: "alice", Session: s.num, Fence: 300_000, Close: schema.CloseKicked}
		require.Equal(t, schema.CodeRetry, st.g.kicked(far))
		synctest.Wait()
		require.Equal(t, 1, st.fakeView.reads)
		require.EqualValues(t, 100, st.Highest(slotOf("alice")))
		require.Equal(t, active, s.current())
		st.fakeView.mu.Lock()
		st.owner.Fence = 300_000
		st.fakeView.mu.Unlock()
		require.Equal(t, schema.CodeOK, st.g.kicked(far))
	})
}
