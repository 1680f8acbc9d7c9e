package lease

import (
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
				for range 4_000 {
					time.Sleep(10 * time.Millisecond)
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
		require.NoError(t, v.view.Reread(t.Context(), subjects.GatewayKey("gw-1")))
		require.Equal(t, lease.Living, v.view.Standing(lease.Gateway, b.me()))
		require.Equal(t, lease.Gone, v.view.Standing(lease.Gateway, old))
		require.Equal(t, lease.Unseen, v.view.Standing(lease.Gateway, schema.Process{Node: "gw-1", Boot: schema.NewBoot()}))
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
		require.Equal(t, lease.Living, v.view.Standing(lease.Authority, old), "an absent key proves nothing")
		bubble.Until(t, time.Minute, "gone", func() bool { return v.view.Standing(lease.Authority, old) == lease.Gone })
		require.Greater(t, time.Since(missed), 20*time.Second)
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

// In a bucket that is not young nothing is believed that is far above what its keys have shown.
func TestSawIsBoundedByTheKeys(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		a := join(t, s, lease.Authority, "a-1").hold()
		_, err := a.bucket.Claim(t.Context(), 3, 0, a.me())
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.False(t, a.view.Young())
		highest := a.view.Highest(3)
		require.False(t, a.view.Saw(3, highest+2*lease.MostAhead))
		require.Equal(t, highest, a.view.Highest(3))
		require.True(t, a.view.Saw(3, highest+lease.MostAhead/2))
		require.Equal(t, highest+lease.MostAhead/2, a.view.Highest(3))
	})
}
