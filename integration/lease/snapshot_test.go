package lease

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

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
	key, _, _ := n.view.Address(s)
	require.NotZero(t, key.Fence)
	return key.Fence
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

func TestNoticeWithoutARevisionIsIgnored(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		v := join(t, s, lease.Gateway, "viewer")
		forged, err := json.Marshal(schema.SlotValue{Node: "evil", Boot: schema.NewBoot()})
		require.NoError(t, err)
		require.NoError(t, a.nc.Publish(strings.TrimSuffix(prefix.Changed(), ">")+subjects.SlotKey(3), forged))
		time.Sleep(time.Second)
		_, ok := v.view.Target(3)
		require.False(t, ok)
		require.True(t, v.log.has("notice without a key or a revision"))
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
				v.mute()
				v.link.LoseIn(anyKey, lost)
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
