package lease

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

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

// A claim of a key that is already ours must not take the old fence for the new one.
func TestClaimAgainLostBefore(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		first, err := a.bucket.Claim(t.Context(), 17, 0, a.me())
		require.NoError(t, err)
		a.link.Lose(prefix.BucketKey(subjects.SlotKey(17)), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = a.bucket.Claim(ctx, 17, first, a.me())
		require.Error(t, err)
		second, err := a.bucket.Claim(t.Context(), 17, first, a.me())
		require.NoError(t, err)
		require.Greater(t, second, first)
	})
}

// A write is sent once: the library's own retries could follow one that was given up.
func TestWritesAreNotRepeatedByTheLibrary(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		a.drop()
		sent := a.link.Delay(anyKey, -1, 0)
		_, err := a.bucket.Claim(t.Context(), 17, 0, schema.Process{Node: "a-1", Boot: schema.NewBoot()})
		require.ErrorIs(t, err, lease.ErrNoBucket)
		require.Equal(t, 1, sent.Hits())
	})
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
		key, _, _ := b.view.Address(1)
		require.Equal(t, schema.Target{Slot: 1, Fence: first, Authority: a.me()}, key)
		require.Equal(t, []lease.SlotChange{{Target: schema.Target{Slot: 1, Fence: first, Authority: a.me()}}}, heard.slots(1))

		second, err := b.bucket.Claim(t.Context(), 1, first, b.me())
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

func TestDeadMemberIsBuriedAtItsRevisionOnly(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		g := join(t, s, lease.Gateway, "gw-1").hold()
		time.Sleep(100 * time.Millisecond)
		alive, _ := g.member(a.view)
		require.NoError(t, g.run.Stop())
		time.Sleep(100 * time.Millisecond)
		deadOne, _ := g.member(a.view)
		require.NoError(t, a.view.Bury(t.Context(), alive))
		_, ok := g.member(a.view)
		require.True(t, ok, "it has moved on")
		require.NoError(t, a.view.Bury(t.Context(), deadOne))
		_, ok = g.member(a.view)
		require.False(t, ok)
		require.Equal(t, lease.Gone, a.view.Standing(lease.Gateway, g.me()))
		require.Equal(t, 1, a.keys(), "config: no marker is left")

		back := join(t, s, lease.Gateway, "gw-1").hold()
		require.Len(t, back.Lives(), 1)
		require.NoError(t, a.view.Bury(t.Context(), deadOne), "asked for again, as after a lost answer")
		time.Sleep(time.Minute)
		require.Len(t, back.Lives(), 1)
		require.Equal(t, lease.Living, a.view.Standing(lease.Gateway, back.me()))
	})
}

// A view that only hears of a purge by its snapshots forgets the name a little later, and knows nothing
// of the boot any more; the name is free for others.
func TestABuriedNameIsForgotten(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		g := join(t, s, lease.Gateway, "gw-1").hold()
		require.NoError(t, g.run.Stop())
		time.Sleep(100 * time.Millisecond)
		dead, ok := g.member(a.view)
		require.True(t, ok)
		require.NoError(t, a.view.Bury(t.Context(), dead))
		_, ok = g.member(v.view)
		require.True(t, ok, "no notice tells")
		bubble.Until(t, 40*time.Second, "the next snapshot", func() bool { _, ok := g.member(v.view); return !ok })
		require.Equal(t, lease.Gone, v.view.Standing(lease.Gateway, g.me()))
		bubble.Until(t, 70*time.Second, "forgotten", func() bool {
			return v.view.Standing(lease.Gateway, g.me()) == lease.Unseen && a.view.Standing(lease.Gateway, g.me()) == lease.Unseen
		})
		back := join(t, s, lease.Gateway, "gw-1").hold()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, v.view.Reread(t.Context(), subjects.GatewayKey("gw-1")))
		require.NotEqual(t, lease.Living, v.view.Standing(lease.Gateway, g.me()), "its key names another")
		require.Equal(t, lease.Living, v.view.Standing(lease.Gateway, back.me()))
	})
}

// A process that was declared dead and buried while it slept begins anew.
func TestOneThatWasBuriedBeginsAnew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		g := join(t, s, lease.Gateway, "gw-1").hold()
		time.Sleep(100 * time.Millisecond)
		g.link.Cut()
		time.Sleep(10 * time.Second)
		m, _ := g.member(a.view)
		require.NoError(t, a.bucket.Kill(t.Context(), m))
		time.Sleep(100 * time.Millisecond)
		m, _ = g.member(a.view)
		require.False(t, m.Alive())
		require.NoError(t, a.view.Bury(t.Context(), m))
		time.Sleep(2 * time.Minute)
		require.False(t, g.holder.Trusted())
		g.link.Heal()
		bubble.Until(t, 20*time.Second, "the next life", func() bool { return len(g.Lives()) == 2 })
		require.ErrorIs(t, g.Causes()[0], lease.ErrBucketLost)
		require.True(t, g.holder.Trusted())
	})
}

// A marker, as whoever deletes a key by hand leaves it, counts as dead, and is buried like any other.
func TestMarkersAreBuried(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1")
		kv, err := a.js().KeyValue(t.Context(), prefix.Bucket())
		require.NoError(t, err)
		require.NoError(t, kv.Delete(t.Context(), subjects.GatewayKey("gw-1")))
		time.Sleep(100 * time.Millisecond)
		list := a.view.Members(lease.Gateway)
		require.Len(t, list, 1)
		require.False(t, list[0].Alive())
		require.Equal(t, 2, a.keys())
		require.NoError(t, a.view.Bury(t.Context(), list[0]))
		require.Empty(t, a.view.Members(lease.Gateway))
		require.Equal(t, 1, a.keys())
	})
}

// keys counts what the bucket holds, markers too.
func (n *node) keys() int {
	n.t.Helper()
	stream, err := n.js().Stream(n.t.Context(), prefix.BucketStream())
	require.NoError(n.t, err)
	return int(stream.CachedInfo().State.Msgs)
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
