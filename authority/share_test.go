package authority

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// holdings are a table of workers: who holds which slots.
type holdings map[schema.Process][]schema.Target

// holding gives processes with so many slots each, by name.
func holding(counts ...int) (live []schema.Process, held holdings) {
	held = holdings{}
	slot := schema.Slot(0)
	for i, n := range counts {
		p := schema.Process{Node: schema.NodeID(fmt.Sprintf("a-%d", i+1)), Boot: schema.NewBoot()}
		live = append(live, p)
		held[p] = nil
		for range n {
			held[p] = append(held[p], schema.Target{Slot: slot, Fence: 1, Authority: p})
			slot++
		}
	}
	return live, held
}

func (h holdings) shares() map[schema.Process]int {
	shares := map[schema.Process]int{}
	for p, slots := range h {
		if len(slots) > 0 {
			shares[p] = len(slots)
		}
	}
	return shares
}

// carryOut makes the moves, and gives how many there were.
func (h holdings) carryOut(moves []move) int {
	for _, m := range moves {
		from := m.target.Authority
		h[from] = slices.DeleteFunc(h[from], func(t schema.Target) bool { return t.Slot == m.target.Slot })
		h[m.to] = append(h[m.to], schema.Target{Slot: m.target.Slot, Fence: m.target.Fence + 1, Authority: m.to})
	}
	return len(moves)
}

func (h holdings) spread() int {
	least, most := schema.Slots, 0
	for _, slots := range h {
		least, most = min(least, len(slots)), max(most, len(slots))
	}
	return most - least
}

// Each owes only while it is the largest, so all together move no more slots than they must, at most
// eight a worker at a time, and end within one of each other. Then nothing moves any more.
func TestSharesEndWithinOneAndMoveNoMoreThanTheyMust(t *testing.T) {
	for _, c := range []struct {
		counts []int
		must   int
	}{
		{[]int{256}, 0}, {[]int{128, 128}, 0}, {[]int{86, 85, 85}, 0}, {[]int{129, 127}, 1},
		{[]int{256, 0}, 128}, {[]int{0, 256}, 128}, {[]int{128, 128, 0}, 85}, {[]int{85, 171}, 43}, {[]int{0, 0, 256}, 170},
		{[]int{100, 100, 56}, 29}, {[]int{52, 51, 51, 51, 51}, 0}, {[]int{64, 64, 64, 64, 0}, 51},
	} {
		t.Run(fmt.Sprint(c.counts), func(t *testing.T) {
			live, held := holding(c.counts...)
			moved := 0
			for round := 0; ; round++ {
				require.Less(t, round, 100)
				some := 0
				for _, me := range live {
					moves := evenOut(me, live, held.shares(), held[me])
					require.LessOrEqual(t, len(moves), inFlight)
					some += held.carryOut(moves)
				}
				if moved += some; some == 0 {
					break
				}
			}
			require.LessOrEqual(t, held.spread(), 1)
			require.Equal(t, c.must, moved)
		})
	}
}

// Of equally large ones the lowest name gives, of equally small ones the lowest name gets: two never both
// think that it is their turn.
func TestOneOwesAtATime(t *testing.T) {
	live, held := holding(100, 100, 28, 28)
	slices.Reverse(live) // in whatever order they are heard of
	for i, me := range live {
		moves := evenOut(me, live, held.shares(), held[me])
		if me.Node != "a-1" {
			require.Empty(t, moves, i)
			continue
		}
		require.Len(t, moves, 1, "then the other is the largest")
		require.EqualValues(t, "a-3", moves[0].to.Node)
	}
}

// A worker that leaves has a place for each of its slots, and the others are even afterwards, however few
// slots they had.
func TestALeaverGivesAllAway(t *testing.T) {
	for _, counts := range [][]int{{128, 128}, {86, 85, 85}, {10, 123, 123}, {200, 0, 56}, {256, 0}, {0, 256}} {
		live, held := holding(counts...)
		me := live[0]
		before := counts[1:]
		moves := handAll(live[1:], held.shares(), held[me])
		require.Len(t, moves, counts[0])
		held.carryOut(moves)
		require.Empty(t, held[me])
		delete(held, me)
		require.LessOrEqual(t, held.spread(), max(1, slices.Max(before)-slices.Min(before)-counts[0]), counts)
	}
	require.Empty(t, handAll(nil, nil, []schema.Target{{}}), "nobody is there to take them")
}
