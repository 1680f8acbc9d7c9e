package authority_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func slotOf(uid schema.UID) schema.Slot { return subjects.SlotOf(uid) }

func owned(g *gateway) (n int) {
	for s := range schema.Slot(schema.Slots) {
		if _, ok := g.view.Target(s); ok {
			n++
		}
	}
	return n
}

func TestOneWorkerServesAllSlots(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		bubble.Until(t, time.Second, "the worker knows that nobody is there", func() bool { return g.state(t, "alice") == schema.Offline })
		r := g.login(t, "alice", "phone")
		found := g.Lookup(t.Context(), []schema.UID{"alice", "bob", "alice"})
		require.Equal(t, schema.Online, found[0].State)
		require.Equal(t, r.Session, found[0].Routes[0].Session)
		require.Equal(t, schema.Offline, found[1].State)
		require.Equal(t, schema.Online, found[2].State)

		g.seq++
		target, _ := g.view.Target(slotOf("alice"))
		codes, err := g.Unregister(t.Context(), target, g.me, []schema.Leave{{UID: "alice", Session: r.Session, Seq: g.seq}})
		require.NoError(t, err)
		require.Equal(t, []schema.Code{schema.CodeOK}, codes)
		require.Equal(t, schema.Offline, g.state(t, "alice"))
	})
}

// A worker that vanishes: nobody is told, so its slots are unknown until its lease has ended, and
// then the other worker's; a connected user is never said to be offline.
func TestSlotsOfALostWorkerAreTakenWhenItsLeaseEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		second := startWorker(t, s, "a-2")
		r := g.login(t, "alice", "phone")

		first.link.Cut()
		cut := time.Now()
		var target schema.Target
		bubble.Until(t, 40*time.Second, "the slot is the other's", func() bool {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			now, ok := g.view.Target(slotOf("alice"))
			target = now
			return ok && now.Authority == second.Me()
		})
		require.GreaterOrEqual(t, time.Since(cut), 27*time.Second, "not before the lease has ended")
		require.Equal(t, schema.Unknown, g.state(t, "alice"), "the gateway has not sent its sync")
		require.Equal(t, schema.Unknown, g.state(t, "bob"))

		g.seq++
		r.Seq = g.seq
		answer, err := g.Sync(t.Context(), target, g.me, true, []schema.Route{r})
		require.NoError(t, err)
		require.Equal(t, []schema.SyncVerdict{{Code: schema.CodeOK}}, answer.Verdicts)
		require.Equal(t, schema.Online, g.state(t, "alice"))

		first.link.Heal()
		time.Sleep(time.Minute)
		require.Equal(t, schema.Online, g.state(t, "alice"), "the old owner takes nothing back")
	})
}

// A worker that stops in order gives its slots up at once.
func TestSlotsOfAStoppedWorkerAreTakenAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		second := startWorker(t, s, "a-2")
		require.NoError(t, first.run.Stop())
		bubble.Until(t, 2*time.Second, "the slot is the other's", func() bool {
			now, ok := g.view.Target(17)
			return ok && now.Authority == second.Me()
		})
	})
}

// With the server's disconnect events imported, a killed worker is succeeded in a fraction of a
// second; without them nobody would know before its lease has ended.
func TestProofOfALostConnectionEndsTheLease(t *testing.T) {
	bubble.RunWith(t, bubble.Options{Config: bubble.DisconnectEvents}, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		second := startWorker(t, s, "a-2")
		r := g.login(t, "alice", "phone")
		time.Sleep(2 * time.Second) // the other listens for the event
		first.kill()
		killed := time.Now()
		bubble.Until(t, time.Second, "the slot is the other's", func() bool {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			now, ok := g.view.Target(slotOf("alice"))
			return ok && now.Authority == second.Me()
		})
		require.GreaterOrEqual(t, time.Since(killed), 100*time.Millisecond, "its return is waited for")
		g.syncAll(t, r)
		require.Equal(t, schema.Online, g.state(t, "alice"))
	})
}

// A worker that redials in time keeps its slots and its directories, though the event has told of
// its connection's end.
func TestAWorkerThatReturnsInTimeKeepsItsSlots(t *testing.T) {
	bubble.RunWith(t, bubble.Options{Config: bubble.DisconnectEvents}, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		startWorker(t, s, "a-2")
		g.login(t, "alice", "phone")
		before, _ := g.view.Target(slotOf("alice"))
		for range 20 {
			first.link.Reset()
			time.Sleep(2 * time.Second)
			after, ok := g.view.Target(slotOf("alice"))
			require.True(t, ok)
			require.Equal(t, before, after)
			require.Equal(t, schema.Online, g.state(t, "alice"))
		}
	})
}

// Shares are evened out once the membership has stood still, and nobody is offline on the way.
func TestSharesAreEvenedOut(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		second := startWorker(t, s, "a-2")
		bubble.Until(t, 30*time.Second, "half the slots moved", func() bool {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			return g.shares()[second.Me()] == schema.Slots/2 && g.shares()[first.Me()] == schema.Slots/2
		})
		time.Sleep(20 * time.Second)
		require.Equal(t, schema.Slots/2, g.shares()[second.Me()], "nothing moves any more")

		require.NoError(t, second.run.Stop())
		require.Equal(t, schema.Slots, g.shares()[first.Me()], "a worker that stops hands all its slots over first")
		bubble.Until(t, time.Second, "alice is online", func() bool { return g.state(t, "alice") == schema.Online })
	})
}

// A gateway that has seen a higher fence than the slot's own: a server has lost the tail of its log.
// The authority lifts its fence above it, with an empty directory.
func TestAFenceIsLiftedAboveOneAlreadySeen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		before, _ := g.view.Target(slotOf("alice"))
		g.view.Saw(before.Slot, before.Fence+5000)
		bubble.Until(t, 10*time.Second, "the fence is above what was seen", func() bool {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			now, ok := g.view.Target(before.Slot)
			return ok && now.Fence > before.Fence+5000
		})
		bubble.Until(t, time.Second, "alice is online", func() bool { return g.state(t, "alice") == schema.Online })
	})
}

// A slot's key that says nobody, or an older fence, where its holder heard nothing of a successor: it
// was deleted by hand, or a server has lost the tail of its log. The only worker claims the slot again.
func TestASlotWhoseKeyIsGoneIsClaimedAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		before, _ := g.view.Target(slotOf("alice"))
		g.deleteKey(t, before.Slot)
		bubble.Until(t, 10*time.Second, "the slot has a fence again", func() bool {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			now, ok := g.view.Target(before.Slot)
			return ok && now.Fence > before.Fence
		})
		bubble.Until(t, time.Second, "alice is online", func() bool { return g.state(t, "alice") == schema.Online })
	})
}

// The bucket does not answer while a fence is to be lifted: it is lifted when it does again.
func TestAFenceIsLiftedWhenTheBucketIsBack(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		before, _ := g.view.Target(slotOf("alice"))
		reads := w.link.Lose("$JS.API.STREAM.MSG.GET.>", -1)
		w.view.Saw(before.Slot, before.Fence+50)
		time.Sleep(5 * time.Second)
		require.Positive(t, reads.Hits())
		reads.Remove()
		bubble.Until(t, 10*time.Second, "the fence is above what was seen", func() bool {
			now, ok := g.view.Target(before.Slot)
			return ok && now.Fence > before.Fence+50
		})
		// A sync that met the change of fences is tried again after its 2 s.
		bubble.Until(t, 3*time.Second, "alice is online", func() bool { return g.state(t, "alice") == schema.Online })
	})
}

// A takeover is in the tail of the log that a server loses: the slots' keys name the dead worker again,
// whom nobody will end a second time. The only one left claims them anew, above the fences it had.
func TestATakeoverIsLost(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first, second := startWorker(t, s, "a-1"), startWorker(t, s, "a-2")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		time.Sleep(30 * time.Second)
		loseTail := s.Keep()
		time.Sleep(5 * time.Second)
		first.kill()
		bubble.Until(t, time.Minute, "all slots taken over", func() bool { return g.shares()[second.Me()] == schema.Slots })
		taken, _ := g.view.Target(slotOf("alice"))
		boot := second.Me()
		loseTail()
		time.Sleep(time.Minute)
		require.Equal(t, schema.Online, g.state(t, "alice"))
		time.Sleep(time.Minute)
		require.Equal(t, boot, second.Me())
		late := join(t, s, "late")
		for slot := range schema.Slot(schema.Slots) {
			now, ok := late.view.Target(slot)
			require.True(t, ok, slot)
			require.Equal(t, boot, now.Authority, slot)
			require.GreaterOrEqual(t, now.Fence, g.view.Highest(slot))
		}
		again, _ := late.view.Target(taken.Slot)
		require.GreaterOrEqual(t, again.Fence, taken.Fence)
	})
}
