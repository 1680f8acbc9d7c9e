package authority_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// keyOf gives the subject of a slot's key.
func keyOf(s schema.Slot) string { return subjects.Prefix("").BucketKey(subjects.SlotKey(s)) }

// keyChanged gives the subject on which the change of a slot's key is told.
func keyChanged(s schema.Slot) string {
	return strings.TrimSuffix(subjects.Prefix("").Changed(), ">") + subjects.SlotKey(s)
}

// fenceAbove waits until a slot has an owner at a fence above one.
func (g *gateway) fenceAbove(t *testing.T, within time.Duration, before schema.Target) {
	t.Helper()
	bubble.Until(t, within, "the slot has a fence again", func() bool {
		now, ok := g.view.Target(before.Slot)
		return ok && now.Fence > before.Fence
	})
}

// The bucket does not answer the claim of one slot: another one is dropped, claimed and served
// meanwhile, and what falls due with time is done.
func TestAClaimWithoutAnswerKeepsUpNothingElse(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, uidOf(1), "phone")
		zero, one := target(t, g, 0), target(t, g, 1)
		claims := w.link.Lose(keyOf(0), -1)
		g.deleteKey(t, 0)
		bubble.Until(t, time.Second, "slot 0 is claimed in vain", func() bool { return claims.Hits() > 0 })
		g.deleteKey(t, 1)
		g.fenceAbove(t, time.Second, one)
		require.Equal(t, 1, claims.Hits(), "one claim of a slot at a time")
		g.syncAll(t, r)
		bubble.Until(t, time.Second, "slot 1 is ready", func() bool { return g.slotStatus(t, w, 1).State == schema.SlotReady })
		require.Equal(t, schema.Online, g.state(t, r.UID))
		claims.Remove()
		g.fenceAbove(t, 10*time.Second, zero)
	})
}

// The bucket answers no reads while a fence is to be lifted and the gateways are to be listed: another
// slot is dropped and claimed meanwhile, time and again.
func TestASilentReadKeepsUpNothingElse(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		reads := []*bubble.Rule{w.link.Lose("$JS.API.STREAM.MSG.GET.>", -1), w.link.Lose("$JS.API.STREAM.INFO.>", -1)}
		zero := target(t, g, 0)
		w.view.Saw(0, zero.Fence+50)
		bubble.Until(t, time.Second, "slot 0 is read in vain", func() bool { return reads[0].Hits() > 0 })
		for range 10 {
			one := target(t, g, 1)
			g.deleteKey(t, 1)
			g.fenceAbove(t, 300*time.Millisecond, one)
		}
		require.Positive(t, reads[1].Hits(), "the gateways are listed in vain")
		for _, r := range reads {
			r.Remove()
		}
		g.fenceAbove(t, 10*time.Second, schema.Target{Slot: 0, Fence: zero.Fence + 50})
	})
}

// Many slots are claimed in vain: no more than 64 claims are under way, and all come through when the
// bucket answers again.
func TestClaimsUnderWayAreBounded(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		const many = 100
		w := startWorker(t, s, "a-1")
		g := startGateway(t, s, "gw-1")
		var before []schema.Target
		var claims []*bubble.Rule
		for slot := range schema.Slot(many) {
			before = append(before, target(t, g, slot))
			claims = append(claims, w.link.Lose(keyOf(slot), -1))
		}
		for slot := range schema.Slot(many) {
			g.deleteKey(t, slot)
		}
		time.Sleep(4 * time.Second)
		hits := 0
		for _, c := range claims {
			hits += c.Hits()
			c.Remove()
		}
		require.Equal(t, 64, hits)
		for _, b := range before {
			g.fenceAbove(t, 10*time.Second, b)
		}
		require.Equal(t, schema.Slots, g.shares()[w.Me()])
	})
}

// The answer to a claim comes when another has the slot already: it is the other's, and nothing is
// taken up, lifted or said.
func TestAClaimIsJudgedWhenItsAnswerComes(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		d := newDiary()
		w := startWorkerWith(t, s, authority.Config{Node: "a-1", Fresh: true, Log: d.logger(), Metrics: d})
		g := startGateway(t, s, "gw-1")
		other := schema.Process{Node: "a-2", Boot: schema.NewBoot()}
		before := target(t, g, 0)
		time.Sleep(time.Second)
		moves := d.counted(t, "slot_moves_total")
		claim := w.link.DelayAnswer(keyOf(0), 1, 3*time.Second)
		w.link.LoseIn(keyChanged(0), 2) // that it is deleted, and claimed
		g.deleteKey(t, 0)
		require.NoError(t, w.view.Reread(t.Context(), subjects.SlotKey(0)))
		g.fenceAbove(t, time.Second, before)
		won := target(t, g, 0)
		require.Equal(t, w.Me(), won.Authority)
		require.Equal(t, 1, claim.Hits())
		_, err := g.b.Claim(t.Context(), 0, won.Fence, other)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		known, _ := w.view.Target(0)
		require.Equal(t, other, known.Authority)
		require.Equal(t, moves+1, d.counted(t, "slot_moves_total"), "slot 0 was dropped, and not taken")
		require.Zero(t, d.said("slot"), "nor is it told of")
	})
}

// One of several workers dies: the others claim its slots beside each other, and hardly ever the same one:
// each slot's key is written once, by whom its rank names. So it is when two die together.
func TestATakeoverWritesEachKeyOnce(t *testing.T) {
	for name, die := range map[string]int{"one of four": 1, "two of four": 2} {
		t.Run(name, func(t *testing.T) {
			bubble.RunWith(t, bubble.Options{Config: bubble.DisconnectEvents}, func(t *testing.T, s *bubble.Server) {
				workers := []*worker{startWorker(t, s, "a-1")}
				g := startGateway(t, s, "gw-1")
				for _, node := range []schema.NodeID{"a-2", "a-3", "a-4"} {
					workers = append(workers, startWorker(t, s, node))
				}
				time.Sleep(time.Minute)
				for _, w := range workers {
					require.Equal(t, schema.Slots/4, g.shares()[w.Me()], "shares are even")
				}
				var writes []*bubble.Rule
				for _, w := range workers[die:] {
					writes = append(writes, w.link.Delay(subjects.Prefix("").BucketKey("slot.*"), -1, time.Millisecond))
				}
				killed := time.Now()
				for _, w := range workers[:die] {
					w.kill()
				}
				bubble.Until(t, 2*time.Second, "others have all slots", func() bool {
					shares, have := g.shares(), 0
					for _, w := range workers[die:] {
						have += shares[w.Me()]
					}
					return have == schema.Slots
				})
				took, all := time.Since(killed), 0
				for i, r := range writes {
					all += r.Hits()
					won := g.shares()[workers[die+i].Me()] - schema.Slots/4
					require.Positive(t, won, "each has a part")
				}
				t.Logf("%d slots, %d writes, taken over after %v", die*schema.Slots/4, all, took)
				require.Less(t, took, 300*time.Millisecond)
				require.LessOrEqual(t, all, die*schema.Slots/4*11/10)
			})
		})
	}
}
