package authority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestRankSpreadsSlotsEvenly(t *testing.T) {
	live := []schema.NodeID{"a-1", "a-2", "a-3"}
	first := map[schema.NodeID]int{}
	for s := range schema.Slot(schema.Slots) {
		ranks := map[int]bool{}
		for _, n := range live {
			r := rank(n, live, s)
			ranks[r] = true
			if r == 0 {
				first[n]++
			}
		}
		require.Len(t, ranks, len(live), "slot %d: every worker has a rank of its own", s)
	}
	for _, n := range live {
		require.InDelta(t, schema.Slots/3, first[n], 30, "%s is first for %d slots", n, first[n])
	}
}

func TestLosingAWorkerMovesOnlyItsSlots(t *testing.T) {
	all, fewer := []schema.NodeID{"a-1", "a-2", "a-3"}, []schema.NodeID{"a-1", "a-3"}
	for s := range schema.Slot(schema.Slots) {
		for _, n := range fewer {
			if rank(n, all, s) == 0 {
				require.Zero(t, rank(n, fewer, s), "slot %d stays with %s", s, n)
			}
		}
	}
}

func TestClaimsWaitsASecondForEachRank(t *testing.T) {
	live := []schema.NodeID{"a-1", "a-2", "a-3"}
	for _, n := range live {
		wait := time.Duration(rank(n, live, 17)) * time.Second
		require.True(t, claims(n, live, 17, wait))
		require.False(t, claims(n, live, 17, wait-1))
	}
}
