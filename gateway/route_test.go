package gateway

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestTouches keeps sessions alive by any frame, and tells the authority of those that have shown
// life, and of no others, once in a third of a heartbeat.
func TestTouches(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		idles := make(map[schema.SessionNum][]time.Duration)
		var at []time.Duration
		start := time.Now()
		st.with(func(m *fakeMesh) {
			m.onTouch = func(list []schema.Touched) ([]schema.TouchException, error) {
				for _, one := range list {
					idles[one.Session] = append(idles[one.Session], one.Idle)
					at = append(at, time.Since(start))
				}
				return nil, nil
			}
		})
		pass(time.Hour)
		n := len(at)
		require.InDelta(t, 120, n, 5, "the client answers a ping each 30 s, and each of them is told once")
		_, num, _ := d.session.Parse()
		for _, idle := range idles[num] {
			require.Less(t, idle, 10*time.Second)
		}
		for range 50 {
			d.send(schema.ClientFrame{Type: schema.TypePing})
			d.next(schema.TypePong)
			pass(time.Second)
		}
		require.InDelta(t, n+6, len(at), 1, "many signs of life are one touch a flush")
	})
}

// TestTouchNotAnswered lets no touch be answered: the session is closed after a TTL, and not before.
func TestTouchNotAnswered(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onTouch = func([]schema.Touched) ([]schema.TouchException, error) { return nil, client.ErrTimeout }
		})
		start := time.Now()
		d := st.hello("alice", "d1")
		pass(80 * time.Second)
		require.Greater(t, st.g.oldestDirty(), 60*time.Second)
		require.Equal(t, schema.CloseMeshLost, d.code())
		require.InDelta(t, 90, time.Since(start).Seconds(), 10.1)
		require.Equal(t, schema.FrameUnavailable, d.next(schema.TypeError).Code)
	})
}

// TestTouchAnsweredAgain is the same, but for an answer shortly before.
func TestTouchAnsweredAgain(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var deaf atomic.Bool
		deaf.Store(true)
		st.with(func(m *fakeMesh) {
			m.onTouch = func([]schema.Touched) ([]schema.TouchException, error) {
				if deaf.Load() {
					return nil, client.ErrTimeout
				}
				return nil, nil
			}
		})
		d := st.hello("alice", "d1")
		pass(75 * time.Second)
		deaf.Store(false)
		pass(11 * time.Second)
		deaf.Store(true)
		pass(75 * time.Second)
		d.send(schema.ClientFrame{Type: schema.TypePing})
		d.next(schema.TypePong)
	})
}

// TestTouchExceptions syncs a session that is unknown there, and closes one that was superseded.
func TestTouchExceptions(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		a, b := st.hello("alice", "d1"), st.hello("bob", "d1")
		_, lostNum, _ := a.session.Parse()
		_, oldNum, _ := b.session.Parse()
		first := true
		st.with(func(m *fakeMesh) {
			m.synced = nil
			m.onTouch = func(list []schema.Touched) (x []schema.TouchException, _ error) {
				for _, one := range list {
					switch {
					case one.Session == lostNum && first:
						first = false
						x = append(x, schema.TouchException{Session: lostNum, Code: schema.CodeUnknown})
					case one.Session == oldNum:
						x = append(x, schema.TouchException{Session: oldNum, Code: schema.CodeSuperseded, Close: schema.CloseReplaced})
					}
				}
				return x, nil
			}
		})
		require.Equal(t, schema.CloseReplaced, b.code())
		pass(15 * time.Second)
		st.with(func(m *fakeMesh) {
			require.Len(t, m.synced, 1)
			r := m.synced[0]
			require.Equal(t, lostNum, r.Session)
			require.Equal(t, schema.Order{Fence: 100, N: 1}, r.Order, "with the order that its login was given")
			require.Greater(t, r.Seq, schema.OwnerSeq(2), "a new seq")
		})
		require.Equal(t, schema.PushWritten, st.push(a, "alice", "m", false), "under its new seq")
	})
}

// TestUnknownForEver is never taken by the authority: nobody can reach it, so it is closed.
func TestUnknownForEver(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onTouch = func(list []schema.Touched) (x []schema.TouchException, _ error) {
				for _, one := range list {
					x = append(x, schema.TouchException{Session: one.Session, Code: schema.CodeUnknown})
				}
				return x, nil
			}
			m.onSync = func(_ schema.Target, r []schema.Route) (*schema.SyncAnswer, error) {
				verdicts := make([]schema.SyncVerdict, len(r))
				for i := range verdicts {
					verdicts[i].Code = schema.CodeRetry
				}
				return &schema.SyncAnswer{Verdicts: verdicts}, nil
			}
		})
		d := st.hello("alice", "d1")
		require.Equal(t, schema.CloseMeshLost, d.code())
	})
}

// TestSyncOnNewFence tells a new owner of every slot's sessions, in chunks, the last one marked, and
// of slots that have none.
func TestSyncOnNewFence(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		const sessions = 3
		var devices []*device
		for i := range sessions {
			devices = append(devices, st.hello("alice", schema.DeviceID(fmt.Sprint(i))))
		}
		st.with(func(m *fakeMesh) { m.synced, m.lasts = nil, 0 })
		st.move()
		synctest.Wait()
		st.with(func(m *fakeMesh) {
			require.Equal(t, schema.Slots, m.lasts)
			require.Len(t, m.synced, sessions)
			for _, r := range m.synced {
				require.Equal(t, schema.Revision(100), r.Order.Fence)
				require.Greater(t, r.Seq, schema.OwnerSeq(sessions))
			}
		})
		for _, d := range devices {
			require.Equal(t, schema.PushWritten, st.push(d, "alice", "m", false))
		}
		last := st.g.settled(st.me())
		require.Equal(t, schema.OwnerSeq(2*sessions), last)
	})
}

// TestSyncsArePaced has an authority that is slow to answer own all slots anew: as many chunks as it may have
// are under way to it, never more, and in the end it has been told of every slot.
func TestSyncsArePaced(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var now, most atomic.Int32
		st.with(func(m *fakeMesh) {
			m.lasts = 0
			m.onSync = func(schema.Target, []schema.Route) (*schema.SyncAnswer, error) {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer now.Add(-1)
				time.Sleep(100 * time.Millisecond)
				return nil, nil
			}
		})
		st.move()
		pass(schema.Slots / syncsInFlight * 100 * time.Millisecond)
		require.EqualValues(t, syncsInFlight, most.Load())
		st.with(func(m *fakeMesh) { require.Equal(t, schema.Slots, m.lasts) })
	})
}

// TestSyncChunks has more sessions in one slot than a chunk takes.
func TestSyncChunks(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		n := slotOf("alice")
		l := st.g.life.Load()
		sl := &st.g.slots[n]
		for i := range schema.MaxSync + 1 {
			s := st.g.newSession(st.request(), "ws", schema.JSON, func() {})
			s.who, s.slot = Identity{UID: schema.UID(fmt.Sprint("u", i))}, n
			st.g.registry.add(s)
			require.True(t, s.admit())
			s.draw(l, schema.Target{})
			sl.mu.Lock()
			require.True(t, s.activate(schema.Target{}, schema.Order{}, nil))
			sl.addLocked(s)
			sl.mu.Unlock()
			t.Cleanup(s.cancel)
		}
		var chunks []int
		st.with(func(m *fakeMesh) {
			m.lasts = 0
			m.onSync = func(_ schema.Target, r []schema.Route) (*schema.SyncAnswer, error) {
				if len(r) > 0 {
					chunks = append(chunks, len(r))
				}
				return nil, nil
			}
		})
		st.move()
		synctest.Wait()
		require.Equal(t, []int{schema.MaxSync, 1}, chunks)
		st.with(func(m *fakeMesh) { require.Equal(t, schema.Slots, m.lasts, "one last chunk a slot") })
	})
}

// TestSyncAgain repeats a chunk with the same seqs after a time-out, and tells again, with new ones,
// of what was answered old_seq or retry. A loser elsewhere is kicked, one here closed.
func TestSyncAgain(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		a, b, c := st.hello("alice", "1"), st.hello("alice", "2"), st.hello("alice", "3")
		_, winner, _ := a.session.Parse()
		_, retried, _ := b.session.Parse()
		_, loser, _ := c.session.Parse()
		elsewhere := gatewayProcess("gw-2")
		var told [][]schema.Route
		var kicked []schema.KickEntry
		backlog := 0
		st.with(func(m *fakeMesh) {
			m.onSync = func(to schema.Target, r []schema.Route) (*schema.SyncAnswer, error) {
				if to.Slot != slotOf("alice") {
					return nil, nil
				}
				told, backlog = append(told, r), max(backlog, st.g.life.Load().syncs.backlog())
				if len(r) == 0 {
					return nil, nil
				}
				if len(told) == 1 {
					return nil, client.ErrTimeout
				}
				answer := &schema.SyncAnswer{Verdicts: make([]schema.SyncVerdict, len(r))}
				for i := range r {
					switch {
					case r[i].Session == loser:
						answer.Verdicts[i] = schema.SyncVerdict{Code: schema.CodeSuperseded, Close: schema.CloseKicked}
					case r[i].Session == retried && len(told) == 2:
						answer.Verdicts[i].Code = schema.CodeOldSeq
					case r[i].Session == winner:
						answer.Losers = append(answer.Losers, schema.Loser{UID: "alice", Owner: elsewhere, Session: 9, Close: schema.CloseReplaced})
					}
				}
				return answer, nil
			}
			m.onKick = func(p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
				require.Equal(t, elsewhere, p)
				kicked = append(kicked, e...)
				return make([]schema.Code, len(e)), nil
			}
		})
		st.move()
		require.Equal(t, schema.CloseKicked, c.code())
		pass(time.Second)
		require.Equal(t, seqs(told[0]), seqs(told[1]), "the same message")
		require.Positive(t, backlog)
		require.Zero(t, st.g.life.Load().syncs.backlog(), "all is told")
		require.Len(t, told, 4)
		require.Len(t, told[2], 1)
		require.Empty(t, told[3], "the last chunk comes when all are taken")
		require.Equal(t, retried, told[2][0].Session)
		require.Greater(t, told[2][0].Seq, told[1][0].Seq)
		require.Equal(t, []schema.KickEntry{{UID: "alice", Session: 9, Fence: 101, Close: schema.CloseReplaced}}, kicked)
	})
}

func seqs(routes []schema.Route) (list []schema.OwnerSeq) {
	for _, r := range routes {
		list = append(list, r.Seq)
	}
	return list
}

// TestUnregisterAgain repeats the last word where it was sent, until it is answered.
func TestUnregisterAgain(t *testing.T) {
	for name, first := range map[string]struct {
		code schema.Code
		err  error
		seqs []schema.OwnerSeq
	}{
		"time-out":  {err: client.ErrTimeout, seqs: []schema.OwnerSeq{2, 2}},
		"nobody":    {err: client.ErrNoResponders, seqs: []schema.OwnerSeq{2, 2}},
		"retry":     {code: schema.CodeRetry, seqs: []schema.OwnerSeq{2, 2}},
		"old seq":   {code: schema.CodeOldSeq, seqs: []schema.OwnerSeq{2, 3}},
		"displaced": {code: schema.CodeSuperseded, seqs: []schema.OwnerSeq{2}},
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				var sent []schema.OwnerSeq
				st.with(func(m *fakeMesh) {
					m.onUnregister = func(_ schema.Target, e []schema.Leave) ([]schema.Code, error) {
						sent = append(sent, e[0].Seq)
						if len(sent) > 1 {
							return nil, nil
						}
						if first.err != nil {
							return nil, first.err
						}
						return []schema.Code{first.code}, nil
					}
				})
				st.hello("alice", "d1").ws.CloseNow()
				pass(5 * time.Second)
				require.Equal(t, first.seqs, sent)
				require.Equal(t, sent[len(sent)-1], st.g.settled(st.me()))
			})
		})
	}
}

// TestUnregisterSettles gives up where the slot has another fence, and after a TTL.
func TestUnregisterSettles(t *testing.T) {
	deaf := func(st *stage) *[]schema.Target {
		to := new([]schema.Target)
		st.with(func(m *fakeMesh) {
			m.onUnregister = func(t schema.Target, _ []schema.Leave) ([]schema.Code, error) {
				*to = append(*to, t)
				return nil, client.ErrTimeout
			}
		})
		return to
	}
	perform(t, nil, func(t *testing.T, st *stage) {
		to := deaf(st)
		st.hello("alice", "d1").ws.CloseNow()
		pass(5 * time.Second)
		require.Equal(t, schema.OwnerSeq(0), st.g.settled(st.me())-1, "only the register is closed")
		st.move()
		pass(10 * time.Second)
		require.Zero(t, st.g.life.Load().leaves.len())
		require.Equal(t, schema.OwnerSeq(2), st.g.settled(st.me()))
		for _, one := range *to {
			require.Equal(t, schema.Revision(100), one.Fence, "the new owner was never told")
		}
	})
	perform(t, nil, func(t *testing.T, st *stage) {
		deaf(st)
		st.hello("alice", "d1").ws.CloseNow()
		pass(89 * time.Second)
		require.Equal(t, 1, st.g.life.Load().leaves.len())
		pass(10 * time.Second)
		require.Zero(t, st.g.life.Load().leaves.len())
		require.Equal(t, 1.0, st.metric("drops_total", string(dropLeave)))
	})
}

// TestSettledWhileOpen keeps the mark below an operation that may still be applied.
func TestSettledWhileOpen(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		st.with(func(m *fakeMesh) {
			m.onRegister = func(_ schema.Target, l schema.Login) (schema.LoginResult, error) {
				if l.Route.UID != "slow" {
					return schema.LoginResult{}, nil
				}
				time.Sleep(500 * time.Millisecond)
				return schema.LoginResult{}, client.ErrTimeout
			}
		})
		st.hello("alice", "1")
		require.Equal(t, schema.OwnerSeq(1), st.g.settled(st.me()))
		d := st.begin("slow")
		synctest.Wait()
		st.hello("alice", "2")
		require.Equal(t, schema.OwnerSeq(1), st.g.settled(st.me()))
		d.code()
		synctest.Wait()
		require.Equal(t, schema.OwnerSeq(4), st.g.settled(st.me()), "the answered unregister has overtaken it")
		require.Zero(t, st.g.settled(gatewayProcess("gw-1")), "another boot")
	})
}
