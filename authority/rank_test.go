package authority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func workers(names ...schema.NodeID) (live []schema.Process) {
	for _, n := range names {
		live = append(live, schema.Process{Node: n})
	}
	return live
}

func TestRankSpreadsSlotsEvenly(t *testing.T) {
	live := workers("a-1", "a-2", "a-3")
	first := map[schema.NodeID]int{}
	for s := range schema.Slot(schema.Slots) {
		ranks := map[int]bool{}
		for _, p := range live {
			n := p.Node
			r := rank(n, live, s)
			ranks[r] = true
			if r == 0 {
				first[n]++
			}
		}
		require.Len(t, ranks, len(live), "slot %d: every worker has a rank of its own", s)
	}
	for _, p := range live {
		n := p.Node
		require.InDelta(t, schema.Slots/3, first[n], 30, "%s is first for %d slots", n, first[n])
	}
}

func TestLosingAWorkerMovesOnlyItsSlots(t *testing.T) {
	all, fewer := workers("a-1", "a-2", "a-3"), workers("a-1", "a-3")
	for s := range schema.Slot(schema.Slots) {
		for _, p := range fewer {
			n := p.Node
			if rank(n, all, s) == 0 {
				require.Zero(t, rank(n, fewer, s), "slot %d stays with %s", s, n)
			}
		}
	}
}

func TestClaimsWaitsASecondForEachRank(t *testing.T) {
	live := workers("a-1", "a-2", "a-3")
	for _, p := range live {
		n := p.Node
		wait := time.Duration(rank(n, live, 17)) * time.Second
		require.True(t, claims(n, live, 17, wait))
		require.False(t, claims(n, live, 17, wait-1))
	}
}
