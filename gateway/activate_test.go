package gateway

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// attempt is a register as the authority saw it.
type attempt struct {
	to  schema.Target
	seq schema.OwnerSeq
	at  time.Duration
}

// registers has the mesh answer registers one after the other, the last answer for ever, and gives
// where they are noted.
func (st *stage) registers(answers ...any) *[]attempt {
	seen := new([]attempt)
	start := time.Now()
	st.with(func(m *fakeMesh) {
		m.onRegister = func(t schema.Target, l schema.Login) (schema.LoginResult, error) {
			answer := answers[min(len(*seen), len(answers)-1)]
			*seen = append(*seen, attempt{t, l.Route.Seq, time.Since(start)})
			switch a := answer.(type) {
			case schema.LoginResult:
				return a, nil
			case error:
				if errors.Is(a, client.ErrTimeout) {
					time.Sleep(500 * time.Millisecond)
				}
				return schema.LoginResult{}, a
			case func():
				a()
			}
			return schema.LoginResult{}, nil
		}
	})
	return seen
}

func refused(code schema.Code, after time.Duration) error {
	return &client.Refusal{Head: schema.AnswerHead{Code: code, RetryAfter: after}}
}

func (st *stage) begin(uid schema.UID) *device {
	d := st.dial(schema.JSON)
	d.send(schema.ClientFrame{Type: schema.TypeHello, ID: "h", Token: string(uid), Device: "d1"})
	return d
}

// TestRegisterAgain checks what each answer to a register makes of the next: the same message to
// the same target after a time-out, a new one with a new seq after all else, and when.
func TestRegisterAgain(t *testing.T) {
	ms := time.Millisecond
	code := func(c schema.Code) schema.LoginResult { return schema.LoginResult{Code: c} }
	for name, c := range map[string]struct {
		answer any
		seqs   []schema.OwnerSeq
		after  time.Duration
	}{
		"time-out":      {client.ErrTimeout, []schema.OwnerSeq{1, 1, 1}, 500 * ms},
		"no responders": {client.ErrNoResponders, []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"mismatch":      {refused(schema.CodeMismatch, 0), []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"moved":         {refused(schema.CodeMoved, 0), []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"unavailable":   {refused(schema.CodeUnavailable, 300*ms), []schema.OwnerSeq{1, 2, 3}, 300 * ms},
		"disconnected":  {client.ErrDisconnected, []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"retry":         {code(schema.CodeRetry), []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"busy":          {schema.LoginResult{Code: schema.CodeBusy, RetryAfter: 70 * ms}, []schema.OwnerSeq{1, 2, 3}, 70 * ms},
		"old seq":       {code(schema.CodeOldSeq), []schema.OwnerSeq{1, 2, 3}, 10 * ms},
		"damped":        {schema.LoginResult{Code: schema.CodeDamped, RetryAfter: time.Second}, []schema.OwnerSeq{1, 2, 3}, time.Second},
		"internal":      {code(schema.CodeInternal), []schema.OwnerSeq{1, 2, 3}, 10 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				seen := st.registers(c.answer, c.answer, schema.LoginResult{})
				d := st.begin("alice")
				d.session = d.next(schema.TypeConnected).Session
				var seqs []schema.OwnerSeq
				for _, a := range *seen {
					seqs = append(seqs, a.seq)
				}
				require.Equal(t, c.seqs, seqs)
				require.Equal(t, c.after, (*seen)[1].at-(*seen)[0].at)
				require.Equal(t, seqs[2], st.g.settled(st.me()), "nothing is open")
				require.Equal(t, schema.PushWritten, st.push(d, "alice", "m", false))
			})
		})
	}
}

// TestRegisterAtNewOwner times out at an owner that is replaced meanwhile: the new one gets a new
// message, and the old one's is void.
func TestRegisterAtNewOwner(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		seen := st.registers(client.ErrTimeout, schema.LoginResult{})
		d := st.begin("alice")
		synctest.Wait()
		st.move()
		d.next(schema.TypeConnected)
		require.Equal(t, schema.OwnerSeq(1), (*seen)[0].seq)
		require.Equal(t, schema.OwnerSeq(2), (*seen)[1].seq)
		require.Equal(t, schema.Revision(101), (*seen)[1].to.Fence)
	})
}

// TestNoTime never gets an answer: the login ends in time, with a hint, and is rolled back where it
// was last sent.
func TestNoTime(t *testing.T) {
	for name, c := range map[string]struct {
		answer any
		why    string
	}{
		"time-out":     {client.ErrTimeout, "no answer from the mesh in time"},
		"unavailable":  {refused(schema.CodeUnavailable, 2*time.Second), "the mesh takes no logins now"},
		"disconnected": {client.ErrDisconnected, "gateway is not connected to the mesh"},
		"damped":       {schema.LoginResult{Code: schema.CodeDamped, RetryAfter: 30 * time.Second}, "this device is replaced too often"},
		"busy":         {schema.LoginResult{Code: schema.CodeBusy}, "another login of this user, or a rebuild, comes first"},
		"nobody":       {client.ErrNoResponders, "nobody serves this user's slot now"},
		"retry":        {schema.LoginResult{Code: schema.CodeRetry}, "login not possible now: retry"},
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				st.registers(c.answer)
				start := time.Now()
				d := st.begin("alice")
				f := d.next(schema.TypeError)
				require.Equal(t, c.why, f.Message)
				require.Equal(t, "h", f.ID)
				require.Equal(t, schema.FrameUnavailable, f.Code)
				require.True(t, f.Retryable)
				require.GreaterOrEqual(t, f.RetryAfterMS, int64(1000))
				require.Equal(t, schema.CloseNotNow, f.Close)
				require.Equal(t, schema.CloseNotNow, d.code())
				require.LessOrEqual(t, time.Since(start), 5*time.Second+500*time.Millisecond, "a try that the fake does not cut short included")
				synctest.Wait()
				require.Zero(t, st.g.registry.len())
				st.with(func(m *fakeMesh) { require.Len(t, m.leaves, 1, "one rollback") })
			})
		})
	}
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		res  schema.LoginResult
		want schema.CloseCode
	}{
		"refused":    {schema.LoginResult{Code: schema.CodeRefused, Close: schema.CloseRefused, Why: "too many"}, schema.CloseRefused},
		"superseded": {schema.LoginResult{Code: schema.CodeSuperseded, Close: schema.CloseKicked}, schema.CloseKicked},
		"no code":    {schema.LoginResult{Code: schema.CodeSuperseded}, schema.CloseReplaced},
		"malformed":  {schema.LoginResult{Code: schema.CodeBad}, schema.CloseInternal},
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				seen := st.registers(c.res)
				d := st.begin("alice")
				require.Equal(t, c.want, d.code())
				if c.res.Why != "" {
					require.Equal(t, c.res.Why, d.next(schema.TypeError).Message)
				}
				synctest.Wait()
				require.Len(t, *seen, 1)
				require.Zero(t, st.g.registry.len())
			})
		})
	}
}

// TestFenceOvertaken commits a login at an authority while a higher fence becomes known: it is not
// active before the slot's new owner has committed it too.
func TestFenceOvertaken(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		seen := st.registers(func() { st.Saw(slotOf("alice"), 101) }, func() {})
		st.begin("alice")
		pass(time.Second)
		require.Zero(t, len(st.g.slots[slotOf("alice")].snapshot()))
		require.Greater(t, len(*seen), 2, "registers go on at the owner that is known")
		st.move()
		pass(time.Second)
		require.Len(t, st.g.slots[slotOf("alice")].snapshot(), 1)
	})
}

// TestFenceGivenTwice commits a login at an authority whose very fence becomes known as another's: a log
// that has lost its tail gave it out a second time.
func TestFenceGivenTwice(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		another := schema.NewBoot()
		seen := st.registers(func() {
			st.fakeView.mu.Lock()
			defer st.fakeView.mu.Unlock()
			st.owner.Authority.Boot = another
		}, func() {})
		st.begin("alice")
		pass(time.Second)
		require.Len(t, *seen, 2, "the other is asked too")
		require.Equal(t, another, (*seen)[1].to.Authority.Boot)
		require.Len(t, st.g.slots[slotOf("alice")].snapshot(), 1)
	})
}

// TestLeavesWhileLoggingIn ends a session at each step of its login, by its client and by a kick:
// nothing of it is left, and the unregister goes out after all that may have been applied. The last
// step finds it ended when it is to be marked active.
func TestLeavesWhileLoggingIn(t *testing.T) {
	other := gatewayProcess("gw-2")
	for _, step := range []string{"register", "kick", "commit"} {
		for _, how := range []string{"closed", "kicked"} {
			t.Run(step+" "+how, func(t *testing.T) {
				perform(t, nil, func(t *testing.T, st *stage) {
					var d *device
					leave := func(at string) {
						if at != step {
							return
						}
						if how == "kicked" {
							s := st.g.registry.page(0, 1)[0]
							require.Equal(t, pending, s.current())
							require.Equal(t, schema.CodeOK, st.g.kicked(schema.KickEntry{UID: "alice", Session: s.num, Fence: 100, Close: schema.CloseKicked}))
							return
						}
						d.raw.Close()
						time.Sleep(time.Millisecond)
					}
					st.with(func(m *fakeMesh) {
						m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
							leave("register")
							return schema.LoginResult{Code: schema.CodeConflict, Token: "t", Conflicts: []schema.Conflict{{Owner: other, Session: 1, Forced: time.Second}}}, nil
						}
						m.onKick = func(schema.Process, []schema.KickEntry) ([]schema.Code, error) {
							leave("kick")
							return make([]schema.Code, 1), nil
						}
						m.onCommit = func(schema.Target, schema.CommitEntry) (schema.LoginResult, error) {
							leave("commit")
							return schema.LoginResult{}, nil
						}
					})
					d = st.dial(schema.JSON)
					d.send(schema.ClientFrame{Type: schema.TypeHello, Token: "alice", Device: "d1"})
					told := 0 // that it is connected: only by the kick, which shows that it was
					if how == "kicked" {
						require.Equal(t, schema.CloseKicked, d.code())
						told = 1
					}
					time.Sleep(10 * time.Second)
					for len(d.frames) > 0 {
						require.Equal(t, schema.TypeConnected, (<-d.frames).Type)
						told--
					}
					require.Zero(t, told)
					require.Zero(t, st.g.registry.len())
					require.Empty(t, st.g.slots[slotOf("alice")].snapshot())
					st.with(func(m *fakeMesh) {
						require.Len(t, m.leaves, 1)
						require.Equal(t, schema.OwnerSeq(2), m.leaves[0].Seq, "above the register's")
					})
					require.Equal(t, schema.OwnerSeq(2), st.g.settled(st.me()))
				})
			})
		}
	}
}

// TestPushWhileLoggingIn pushes at each step of a login: pending before, written after, and never
// no_session, for which its route would be removed.
func TestPushWhileLoggingIn(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		release := make(chan struct{})
		st.with(func(m *fakeMesh) {
			m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
				<-release
				return schema.LoginResult{}, nil
			}
		})
		d := st.begin("alice")
		synctest.Wait()
		s := st.g.registry.page(0, 1)[0]
		push := func(uid schema.UID, num schema.SessionNum, seq schema.OwnerSeq) schema.PushResult {
			f := &schema.PushFrame{ID: "m", Payload: []byte("1"), Recipients: []schema.Recipient{{UID: uid, Session: num, Seq: seq}}}
			return st.g.pushFrame(st.g.life.Load(), f, nil, nil)[0]
		}
		require.Equal(t, schema.PushPending, push("alice", s.num, 1))
		require.Equal(t, schema.PushUnknown, push("alice", s.num, 9), "not a seq that it has drawn")
		require.Equal(t, schema.PushNoSession, push("bob", s.num, 1), "never issued to bob")
		require.Equal(t, schema.PushNoSession, push("alice", s.num+1, 1))
		close(release)
		synctest.Wait()
		require.Equal(t, schema.PushWritten, push("alice", s.num, 1))
		d.next(schema.TypeConnected)
		d.next(schema.TypeRecv)
		st.g.end(s, lost())
		require.Equal(t, schema.PushNoSession, push("alice", s.num, 1))
	})
}

// TestNoMesh turns clients away while the gateway has no life, or too much to report.
func TestNoMesh(t *testing.T) {
	turned := func(t *testing.T, d *device) {
		t.Helper()
		f := d.next(schema.TypeError)
		require.Equal(t, schema.FrameUnavailable, f.Code)
		require.NotZero(t, f.RetryAfterMS)
		require.Equal(t, schema.CloseNotNow, d.code())
	}
	perform(t, nil, func(t *testing.T, st *stage) {
		st.holder.end(lease.ErrLost)
		synctest.Wait()
		require.Error(t, st.g.Ready())
		turned(t, st.begin("alice"))
	})
	perform(t, func(c *Config) { c.Limits.Leaves = 1 }, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onUnregister = func(schema.Target, []schema.Leave) ([]schema.Code, error) { return nil, client.ErrTimeout }
		})
		st.hello("alice", "d1").ws.CloseNow()
		pass(time.Second)
		turned(t, st.begin("bob"))
		st.with(func(m *fakeMesh) { m.onUnregister = nil })
		pass(10 * time.Second)
		st.hello("bob", "d1")
	})
}
