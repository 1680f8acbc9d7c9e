package lease

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// told keeps what a view told.
type told struct {
	mu      sync.Mutex
	changes []lease.Change
}

func follow(v *lease.View) *told {
	out := &told{}
	v.Subscribe(func(c lease.Change) {
		out.mu.Lock()
		defer out.mu.Unlock()
		out.changes = append(out.changes, c)
	})
	return out
}

func (o *told) all() []lease.Change {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]lease.Change(nil), o.changes...)
}

// slots gives what was told of a slot, in order.
func (o *told) slots(s schema.Slot) (out []lease.SlotChange) {
	for _, c := range o.all() {
		if c.Slot != nil && c.Slot.Target.Slot == s {
			out = append(out, *c.Slot)
		}
	}
	return out
}

// mute loses the notices on their way to a node, so that only reads teach it.
func (n *node) mute() *bubble.Rule { return n.link.LoseIn(prefix.Changed(), -1) }

func TestClaimIsSeenByAll(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1")
		heard := follow(g.view)
		_, ok := g.view.Target(17)
		require.False(t, ok)
		fence, err := a.bucket.Claim(t.Context(), 17, 0, a.me())
		require.NoError(t, err)
		want := schema.Target{Slot: 17, Fence: fence, Authority: a.me()}
		time.Sleep(10 * time.Millisecond)
		got, ok := g.view.Target(17)
		require.True(t, ok)
		require.Equal(t, want, got)
		require.Equal(t, fence, g.view.Highest(17))
		require.Equal(t, []lease.SlotChange{{Target: want, Owned: true}}, heard.slots(17))

		_, err = a.bucket.Claim(t.Context(), 17, 0, schema.Process{Node: "a-2", Boot: schema.NewBoot()})
		require.ErrorIs(t, err, lease.ErrConflict)
		time.Sleep(time.Hour)
		got, ok = g.view.Target(17)
		require.True(t, ok, "renewals and snapshots do not move a fence")
		require.Equal(t, want, got)
		require.Len(t, heard.slots(17), 1)
	})
}

func TestClaimLostBeforeOrAfter(t *testing.T) {
	for name, fault := range map[string]func(*bubble.Link){
		"lost before": func(l *bubble.Link) { l.Lose(prefix.BucketKey(subjects.SlotKey(17)), 1) },
		"lost after":  func(l *bubble.Link) { l.LoseAnswer(prefix.BucketKey(subjects.SlotKey(17)), 1) },
		"duplicated":  func(l *bubble.Link) { l.Duplicate(prefix.BucketKey(subjects.SlotKey(17)), 1) },
		"delayed":     func(l *bubble.Link) { l.Delay(prefix.BucketKey(subjects.SlotKey(17)), 1, 10*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1").hold()
				fault(a.link)
				var fence schema.Revision
				bubble.Until(t, time.Minute, "claimed", func() bool {
					var err error
					fence, err = a.bucket.Claim(t.Context(), 17, 0, a.me())
					return err == nil
				})
				time.Sleep(20 * time.Second)
				require.NoError(t, a.view.Refresh(t.Context()))
				got, ok := a.view.Target(17)
				require.True(t, ok)
				require.Equal(t, fence, got.Fence, "the fence given is the one that stands")
			})
		})
	}
}

func TestTargetEndsWithItsOwner(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		b := join(t, s, lease.Authority, "a-2").hold()
		first, err := a.bucket.Claim(t.Context(), 1, 0, a.me())
		require.NoError(t, err)
		time.Sleep(time.Second)
		heard := follow(b.view)
		require.NoError(t, a.run.Stop())
		time.Sleep(10 * time.Millisecond)
		_, ok := b.view.Target(1)
		require.False(t, ok)
		rev, owner := b.view.Key(1)
		require.Equal(t, first, rev)
		require.Equal(t, a.me(), owner)
		require.Equal(t, []lease.SlotChange{{Target: schema.Target{Slot: 1, Fence: first, Authority: a.me()}}}, heard.slots(1))

		second, err := b.bucket.Claim(t.Context(), 1, rev, b.me())
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		got, ok := b.view.Target(1)
		require.True(t, ok)
		require.Equal(t, schema.Target{Slot: 1, Fence: second, Authority: b.me()}, got)
	})
}

// A view that was not there when an owner was replaced must still know that it is gone.
func TestLateViewKnowsOwnersThatWereReplaced(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		_, err := a.bucket.Claim(t.Context(), 1, 0, a.me())
		require.NoError(t, err)
		require.NoError(t, a.run.Stop())
		again := join(t, s, lease.Authority, "a-1").hold()
		late := join(t, s, lease.Gateway, "gw-1")
		_, ok := late.view.Target(1)
		require.False(t, ok)
		_, err = again.bucket.Claim(t.Context(), 2, 0, again.me())
		require.NoError(t, err)
		require.NoError(t, late.view.Reread(t.Context(), subjects.SlotKey(2)))
		_, ok = late.view.Target(2)
		require.True(t, ok)
	})
}

// Every way of hearing must give the same picture: notices only, snapshots only, reads only.
func TestSnapshotNoticesAndReadsAgree(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		byNotice := join(t, s, lease.Gateway, "gw-1")
		byNotice.link.Lose("$JS.API.>", -1)
		byRead := join(t, s, lease.Gateway, "gw-2")
		byRead.mute()
		byRead.link.Lose("$JS.API.CONSUMER.CREATE.>", -1)
		bySnapshot := join(t, s, lease.Gateway, "gw-3")
		bySnapshot.mute()
		bySnapshot.link.Lose("$JS.API.STREAM.MSG.GET.>", -1)

		g := join(t, s, lease.Gateway, "gw-4").hold()
		for i := range schema.Slot(20) {
			_, err := a.bucket.Claim(t.Context(), i, 0, a.me())
			require.NoError(t, err)
		}
		require.NoError(t, g.run.Stop())
		time.Sleep(45 * time.Second)
		for _, n := range []*node{byNotice, byRead, bySnapshot} {
			require.Equal(t, lease.Living, n.view.Standing(lease.Authority, a.me()), n.name)
			require.Equal(t, lease.Gone, n.view.Standing(lease.Gateway, g.me()))
			m, ok := g.member(n.view)
			require.True(t, ok)
			require.False(t, m.Alive())
			for i := range schema.Slot(20) {
				want, _ := a.view.Target(i)
				got, ok := n.view.Target(i)
				require.True(t, ok)
				require.Equal(t, want, got)
			}
		}
	})
}

func TestLostNoticeIsFoundByTheNext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1")
		time.Sleep(5 * time.Second)
		g.link.LoseIn(prefix.Changed(), 1)
		before := g.view.Revision()
		fence, err := a.bucket.Claim(t.Context(), 9, 0, a.me())
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		_, ok := g.view.Target(9)
		require.False(t, ok)
		require.Equal(t, before, g.view.Revision(), "what was not heard is not claimed to be")
		bubble.Until(t, 5*time.Second, "found", func() bool { _, ok := g.view.Target(9); return ok })
		require.GreaterOrEqual(t, g.view.Revision(), fence)
	})
}

func TestRevisionFollowsTheBucket(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1")
		for range 100 {
			time.Sleep(time.Second)
			stream, err := a.js().Stream(t.Context(), prefix.BucketStream())
			require.NoError(t, err)
			require.EqualValues(t, stream.CachedInfo().State.LastSeq, g.view.Revision())
		}
	})
}

func TestReconnectBringsASnapshot(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1")
		g.mute()
		_, err := a.bucket.Claim(t.Context(), 9, 0, a.me())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		_, ok := g.view.Target(9)
		require.False(t, ok)
		g.link.Reset()
		bubble.Until(t, time.Second, "read again", func() bool { _, ok := g.view.Target(9); return ok })
	})
}

// A process that was itself cut off must not take the others' silence for their death.
func TestOwnSilenceRestartsTheTimers(t *testing.T) {
	for name, back := range map[string]func(*bubble.Link){
		"healed":      func(l *bubble.Link) { l.Heal() },
		"reconnected": func(l *bubble.Link) { l.Reset(); l.Heal() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1").hold()
				v := join(t, s, lease.Gateway, "viewer") // holds nothing, so it writes nothing
				time.Sleep(10 * time.Second)
				v.link.Cut()
				time.Sleep(29 * time.Second)
				back(v.link)
				for range 40_000 {
					time.Sleep(time.Millisecond)
					m, ok := a.member(v.view)
					require.True(t, ok)
					require.Less(t, m.Quiet, 29*time.Second)
				}
				m, _ := a.member(v.view)
				require.Less(t, m.Quiet, 4*time.Second)
			})
		})
	}
}

func TestQuietGrowsOnlyForTheSilent(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		b := join(t, s, lease.Authority, "a-2").hold()
		a.crash()
		start := time.Now()
		bubble.Until(t, 40*time.Second, "quiet for a lease", func() bool {
			m, _ := a.member(b.view)
			return m.Quiet >= 30*time.Second
		})
		require.Greater(t, time.Since(start), 26*time.Second)
		b.link.Lose(anyKey, 1)
		bubble.Until(t, 5*time.Second, "a failed write restarts it", func() bool {
			m, _ := a.member(b.view)
			return m.Quiet < time.Second
		})
	})
}

func TestStandingIsUnseenUntilHeard(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		join(t, s, lease.Authority, "standby")
		a := join(t, s, lease.Gateway, "gw-1").hold()
		old := a.me()
		v := join(t, s, lease.Gateway, "viewer")
		v.mute()
		require.NoError(t, a.run.Stop())
		b := join(t, s, lease.Gateway, "gw-1").hold()
		require.Equal(t, lease.Living, v.view.Standing(lease.Gateway, old), "not heard yet")
		require.Equal(t, lease.Unseen, v.view.Standing(lease.Gateway, b.me()), "it may be newer than what was heard")
		st, err := v.view.Judge(t.Context(), lease.Gateway, b.me())
		require.NoError(t, err)
		require.Equal(t, lease.Living, st)
		require.Equal(t, lease.Gone, v.view.Standing(lease.Gateway, old))

		never := schema.Process{Node: "gw-1", Boot: schema.NewBoot()}
		require.Equal(t, lease.Unseen, v.view.Standing(lease.Gateway, never))
		st, err = v.view.Judge(t.Context(), lease.Gateway, never)
		require.NoError(t, err)
		require.Equal(t, lease.Gone, st, "a process takes its key before it does anything else")
		st, err = v.view.Judge(t.Context(), lease.Gateway, schema.Process{Node: "nobody", Boot: schema.NewBoot()})
		require.NoError(t, err)
		require.Equal(t, lease.Unseen, st, "no key at all proves nothing")
	})
}

// Absence of a key alone, as after the loss of a bucket, ends a life only after a lease.
func TestAbsenceEndsALifeAfterALease(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		join(t, s, lease.Authority, "maker").hold()
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		_, err := a.bucket.Claim(t.Context(), 1, 0, a.me())
		require.NoError(t, err)
		time.Sleep(time.Second)
		old := a.me()
		a.crash()
		v.drop()
		time.Sleep(10 * time.Second)
		require.NoError(t, v.view.Refresh(t.Context()))
		missed := time.Now()
		_, ok := v.view.Target(1)
		require.False(t, ok, "the slot's key went with the bucket")
		bubble.Until(t, time.Minute, "gone", func() bool { return v.view.Standing(lease.Authority, old) == lease.Gone })
		require.Greater(t, time.Since(missed), 20*time.Second)
	})
}

// A bucket made anew may count from below. That must not blind a view for ever.
func TestBucketMadeAnewWithLowerRevisions(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		_, err := a.bucket.Claim(t.Context(), 4, 0, a.me())
		require.NoError(t, err)
		v := join(t, s, lease.Gateway, "viewer")
		stream, err := a.js().Stream(t.Context(), prefix.BucketStream())
		require.NoError(t, err)
		config := stream.CachedInfo().Config
		config.FirstSeq = 1000
		old := a.me()
		a.crash()
		v.drop()
		_, err = v.js().CreateStream(t.Context(), config)
		require.NoError(t, err)
		b := join(t, s, lease.Authority, "a-1").hold()
		_, err = b.bucket.Claim(t.Context(), 4, 0, b.me())
		require.NoError(t, err)
		bubble.Until(t, 40*time.Second, "the new bucket is believed", func() bool {
			target, ok := v.view.Target(4)
			return ok && target.Authority == b.me()
		})
		require.Equal(t, lease.Gone, v.view.Standing(lease.Authority, old))
		target, highest, _ := v.view.Address(4)
		require.Greater(t, highest, target.Fence, "the highest fence ever seen never falls")
		m, ok := b.member(v.view)
		require.True(t, ok)
		require.Equal(t, b.me(), m.Process)
	})
}

func TestSawIsHighest(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		v := join(t, s, lease.Authority, "a-1").view
		v.Saw(3, 100)
		v.Saw(3, 50)
		require.EqualValues(t, 100, v.Highest(3))
		now := schema.Revision(time.Now().UnixMilli())
		v.Saw(3, now+11*365*24*3600*1000)
		require.EqualValues(t, 100, v.Highest(3), "ten years ahead is no revision")
		v.Saw(3, now+9*365*24*3600*1000)
		require.Greater(t, v.Highest(3), now)
		require.Zero(t, v.Highest(4))
	})
}

func TestRereadHasOneReadInFlight(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		v.mute()
		fence, err := a.bucket.Claim(t.Context(), 5, 0, a.me())
		require.NoError(t, err)
		rule := v.link.Delay("$JS.API.STREAM.MSG.GET.>", -1, 100*time.Millisecond)
		var wg sync.WaitGroup
		start := time.Now()
		for range 100 {
			wg.Go(func() {
				require.NoError(t, v.view.Reread(t.Context(), subjects.SlotKey(5)))
				require.Equal(t, fence, v.view.Highest(5))
			})
		}
		wg.Wait()
		require.LessOrEqual(t, rule.Hits(), 2, "those who came meanwhile shared the next read")
		require.LessOrEqual(t, time.Since(start), 210*time.Millisecond)
	})
}

func TestRereadThatFailsIsPacedAndKeepsTheOwner(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		_, err := a.bucket.Claim(t.Context(), 5, 0, a.me())
		require.NoError(t, err)
		time.Sleep(time.Second)
		rule := v.link.Lose("$JS.API.STREAM.MSG.GET.>", -1)
		var pauses []time.Duration
		for range 7 {
			start := time.Now()
			require.Error(t, v.view.Reread(t.Context(), subjects.SlotKey(5)))
			pauses = append(pauses, time.Since(start)-time.Second)
		}
		require.Equal(t, []time.Duration{0, 50e6, 100e6, 200e6, 400e6, 800e6, 1e9}, pauses)
		_, ok := v.view.Target(5)
		require.True(t, ok)
		rule.Remove()
		require.NoError(t, v.view.Reread(t.Context(), subjects.SlotKey(5)))
	})
}

func TestRefreshSeesWhatWasWrittenBefore(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		v.mute()
		for i := range schema.Slot(50) {
			fence, err := a.bucket.Claim(t.Context(), i, 0, a.me())
			require.NoError(t, err)
			require.NoError(t, v.view.Refresh(t.Context()))
			target, ok := v.view.Target(i)
			require.True(t, ok)
			require.Equal(t, fence, target.Fence)
			require.GreaterOrEqual(t, v.view.Revision(), fence)
		}
	})
}

// Permission to create consumers may be missing, or the meta leader gone: key by key then.
func TestSnapshotWithoutAConsumer(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		for i := range schema.Slot(schema.Slots) {
			_, err := a.bucket.Claim(t.Context(), i, 0, a.me())
			require.NoError(t, err)
		}
		v := join(t, s, lease.Gateway, "viewer")
		v.mute()
		v.link.Lose("$JS.API.CONSUMER.CREATE.>", -1)
		_, err := a.bucket.Claim(t.Context(), 0, mustKey(t, a, 0), a.me())
		require.NoError(t, err)
		start := time.Now()
		require.NoError(t, v.view.Refresh(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		require.Less(t, time.Since(start), 1100*time.Millisecond)
		require.Equal(t, mustKey(t, a, 0), mustKey(t, v, 0))
	})
}

func mustKey(t *testing.T, n *node, s schema.Slot) schema.Revision {
	t.Helper()
	require.NoError(t, n.view.Reread(t.Context(), subjects.SlotKey(s)))
	rev, _ := n.view.Key(s)
	require.NotZero(t, rev)
	return rev
}

func TestSnapshotsLeaveNoConsumerBehind(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		for range 20 {
			require.NoError(t, a.view.Refresh(t.Context()))
		}
		stream, err := a.js().Stream(t.Context(), prefix.BucketStream())
		require.NoError(t, err)
		require.Zero(t, stream.CachedInfo().State.Consumers)
	})
}

func TestDeadMemberIsBuriedAtItsRevisionOnly(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		g := join(t, s, lease.Gateway, "gw-1").hold()
		time.Sleep(100 * time.Millisecond)
		alive, _ := g.member(a.view)
		require.NoError(t, g.run.Stop())
		time.Sleep(100 * time.Millisecond)
		deadOne, _ := g.member(a.view)
		require.ErrorIs(t, a.bucket.Bury(t.Context(), alive), lease.ErrConflict)
		require.NoError(t, a.bucket.Bury(t.Context(), deadOne))
		time.Sleep(100 * time.Millisecond)
		_, ok := g.member(a.view)
		require.False(t, ok)
		require.Equal(t, lease.Gone, a.view.Standing(lease.Gateway, g.me()))
		back := join(t, s, lease.Gateway, "gw-1").hold()
		require.Len(t, back.Lives(), 1)
	})
}

func TestNoticeWithoutARevisionIsIgnored(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		forged, err := json.Marshal(schema.SlotValue{Node: "evil", Boot: schema.NewBoot()})
		require.NoError(t, err)
		require.NoError(t, a.nc.Publish("presence.changed.slot.3", forged))
		time.Sleep(time.Second)
		_, ok := v.view.Target(3)
		require.False(t, ok)
		require.True(t, v.log.has("notice without a key or a revision"))
	})
}

func TestDroppedConnectionRestartsTheTimers(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		a.crash()
		time.Sleep(15 * time.Second)
		m, _ := a.member(v.view)
		require.Greater(t, m.Quiet, 10*time.Second)
		v.link.Reset()
		time.Sleep(time.Second)
		m, _ = a.member(v.view)
		require.LessOrEqual(t, m.Quiet, time.Second)
	})
}

// A message of a snapshot that is lost on the way must not pass for a key that is gone.
func TestSnapshotWithALostMessage(t *testing.T) {
	for lost := 1; lost <= 4; lost++ {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			bubble.Run(t, func(t *testing.T, s *bubble.Server) {
				a := join(t, s, lease.Authority, "a-1").hold()
				for i := range schema.Slot(3) {
					_, err := a.bucket.Claim(t.Context(), i, 0, a.me())
					require.NoError(t, err)
				}
				v := join(t, s, lease.Gateway, "viewer")
				v.link.LoseIn("_INBOX.*", lost) // of the consumer's; answers to requests have one part more
				require.NoError(t, v.view.Refresh(t.Context()))
				for i := range schema.Slot(3) {
					_, ok := v.view.Target(i)
					require.True(t, ok)
				}
				require.Equal(t, lease.Living, v.view.Standing(lease.Authority, a.me()))
			})
		})
	}
}

// What is claimed and renewed at once by many must come out the same for all.
func TestManyClaimAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		var all []*node
		for _, name := range []schema.NodeID{"a-1", "a-2", "a-3"} {
			all = append(all, join(t, s, lease.Authority, name).hold())
		}
		won := make([]map[schema.Slot]schema.Revision, len(all))
		var wg sync.WaitGroup
		for i, n := range all {
			won[i] = map[schema.Slot]schema.Revision{}
			wg.Go(func() {
				for slot := range schema.Slot(schema.Slots) {
					fence, err := n.bucket.Claim(t.Context(), slot, 0, n.me())
					if err == nil {
						won[i][slot] = fence
						continue
					}
					require.ErrorIs(t, err, lease.ErrConflict)
				}
			})
		}
		wg.Wait()
		time.Sleep(100 * time.Millisecond)
		total := 0
		for i, n := range all {
			total += len(won[i])
			for slot, fence := range won[i] {
				for _, v := range all {
					target, ok := v.view.Target(slot)
					require.True(t, ok)
					require.Equal(t, schema.Target{Slot: slot, Fence: fence, Authority: n.me()}, target)
				}
			}
		}
		require.Equal(t, schema.Slots, total)
	})
}
