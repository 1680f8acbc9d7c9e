package authority_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// uidOf gives a user of a slot.
func uidOf(s schema.Slot) schema.UID {
	for i := 0; ; i++ {
		if uid := schema.UID(fmt.Sprint("user", i)); slotOf(uid) == s {
			return uid
		}
	}
}

// try asks a target for a login once.
func (g *gateway) try(t *testing.T, to schema.Target, uid schema.UID) error {
	t.Helper()
	g.seq++
	r := schema.Route{
		UID: uid, Owner: g.me, Session: schema.NewSessionNum(uint32(g.seq), 1),
		Device: "phone", Flag: "app", Listener: "ws", Seq: g.seq,
	}
	_, err := g.Register(t.Context(), to, schema.Login{Route: r, Left: 5 * time.Second})
	return err
}

// The server has taken the successor into the slot's key, and neither the answer nor the notice of it
// comes to the former owner: it commits nothing, and is not sure who is offline.
func TestWhoHandsOverDecidesNothingMeanwhile(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		uid := uidOf(0)
		g.login(t, uid, "phone")
		before := target(t, g, 0)
		key := subjects.Prefix("").BucketKey(subjects.SlotKey(0))
		second := startWorker(t, s, "a-2")
		time.Sleep(time.Second)
		first.link.LoseIn(subjects.Prefix("").Changed(), -1)
		g.link.LoseIn(subjects.Prefix("").Changed(), -1)
		answer := first.link.LoseAnswer(key, 1)
		bubble.Until(t, 10*time.Second, "the successor has the slot", func() bool {
			now, _ := second.view.Target(0)
			return answer.Hits() > 0 && now.Authority == second.Me()
		})
		require.Equal(t, before, target(t, g, 0), "nobody has told the gateway")
		require.ErrorIs(t, g.try(t, before, uid), schema.ErrRetry)
		found := g.Lookup(t.Context(), []schema.UID{uid, uidOf(0) + "-not"})[0]
		require.Equal(t, before, found.Target)
		require.True(t, found.Suspect)
	})
}

// The write of a successor is on its way for longer than is waited for its answer. Until its outcome
// is certain the owner decides nothing; it makes it certain by writing the key itself.
func TestAnUnansweredHandOverIsSettledByWritingAgain(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, uidOf(0), "phone")
		stop := g.answerNewFences(t, r)
		defer stop()
		before := target(t, g, 0)
		late := first.link.Delay(subjects.Prefix("").BucketKey(subjects.SlotKey(0)), 1, 30*time.Second)
		startWorker(t, s, "a-2")
		bubble.Until(t, 10*time.Second, "the write is under way", func() bool { return late.Hits() > 0 })
		for now := target(t, g, 0); now == before; now = target(t, g, 0) {
			require.ErrorIs(t, g.try(t, before, r.UID), schema.ErrRetry)
			time.Sleep(20 * time.Millisecond)
		}
		require.Greater(t, target(t, g, 0).Fence, before.Fence)
		bubble.Until(t, time.Second, "it is online under the next fence", func() bool { return g.state(t, r.UID) == schema.Online })
		time.Sleep(time.Minute)
		require.Equal(t, schema.Online, g.state(t, r.UID))
	})
}

func target(t *testing.T, g *gateway, s schema.Slot) schema.Target {
	t.Helper()
	target, ok := g.view.Target(s)
	require.True(t, ok, "slot %d is owned", s)
	return target
}

// A server loses the tail of its log, with the slot's last fence in it. The only worker claims the slot
// again, and the log would give it the very fence that it had, for a directory that is empty now.
func TestNoFenceIsHeldTwice(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		js, err := jetstream.New(g.nc)
		require.NoError(t, err)
		key := subjects.Prefix("").BucketKey(subjects.SlotKey(0))
		claims := w.link.Lose(key, -1)
		stream, err := js.Stream(t.Context(), subjects.Prefix("").BucketStream())
		require.NoError(t, err)
		require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(key)))
		require.NoError(t, w.view.Reread(t.Context(), subjects.SlotKey(0)))
		bubble.Until(t, 5*time.Second, "the slot is claimed in vain", func() bool { return claims.Hits() > 0 })
		loseTail := s.Keep()
		time.Sleep(2 * time.Second) // everybody is connected again
		for range 200 {
			g.fill(t, 1)
		}
		claims.Remove()
		bubble.Until(t, 10*time.Second, "it is claimed", func() bool { return owned(g) == schema.Slots })
		twice := target(t, g, 0)
		claim := w.link.Delay(key, 1, 300*time.Millisecond)
		loseTail()
		bubble.Until(t, 10*time.Second, "the slot is claimed again", func() bool { return claim.Hits() > 0 })
		time.Sleep(290 * time.Millisecond)
		require.Equal(t, twice.Fence-1, g.fill(t, twice.Fence-1))
		bubble.Until(t, 10*time.Second, "the slot has a fence again", func() bool {
			now, ok := g.view.Target(0)
			return ok && now.Fence > twice.Fence
		})
		require.Equal(t, twice.Authority, target(t, g, 0).Authority)
	})
}

// fill writes to the bucket, once at least, until its last revision is to or more, and gives that.
func (g *gateway) fill(t *testing.T, to schema.Revision) (at schema.Revision) {
	t.Helper()
	js, err := jetstream.New(g.nc)
	require.NoError(t, err)
	for at < to {
		ack, err := js.Publish(t.Context(), subjects.Prefix("").BucketKey("filler"), nil)
		require.NoError(t, err)
		at = schema.Revision(ack.Sequence)
	}
	return at
}

// The same, but who held the slot at the lost fence has died since, and another worker is given it.
func TestNoFenceIsHeldByTwo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first, second := startWorker(t, s, "a-1"), startWorker(t, s, "a-2")
		g := startGateway(t, s, "gw-1")
		time.Sleep(30 * time.Second)
		var slot schema.Slot
		for target(t, g, slot).Authority != first.Me() {
			slot++
		}
		loseTail := s.Keep()
		time.Sleep(2 * time.Second) // everybody is connected again
		for range 2000 {
			g.fill(t, 1)
		}
		fence, err := first.b.Claim(t.Context(), slot, target(t, g, slot).Fence, first.Me())
		require.NoError(t, err)
		bubble.Until(t, time.Second, "both know of it", func() bool {
			now, _ := second.view.Target(slot)
			return now.Fence == fence && now.Authority == first.Me()
		})
		claim := second.link.Delay(subjects.Prefix("").BucketKey(subjects.SlotKey(slot)), 1, 300*time.Millisecond)
		first.kill()
		loseTail()
		bubble.Until(t, 2*time.Minute, "it is claimed by the other", func() bool { return claim.Hits() > 0 })
		time.Sleep(290 * time.Millisecond)
		require.Equal(t, fence-1, g.fill(t, fence-1))
		bubble.Until(t, time.Minute, "it is held above that", func() bool {
			now, ok := g.view.Target(slot)
			return ok && now.Fence > fence && now.Authority == second.Me()
		})
	})
}
