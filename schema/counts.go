package schema

import (
	"cmp"
	"slices"
)

// MaxCounts is how many counts of nodes and flags a status or presence.stats tells apart. Clients may choose
// their flags: without a bound a crowd of them makes an answer that fits no message.
const MaxCounts = 1000

// LargestCounts gives the MaxCounts largest of the counts, by node and flag. What is left over is added up,
// node by node, under no flag.
func LargestCounts(counts []NodeCount) []NodeCount {
	if len(counts) > MaxCounts {
		slices.SortFunc(counts, func(a, b NodeCount) int { return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), byNode(a, b)) })
		counts = foldRest(counts[:MaxCounts:MaxCounts], counts[MaxCounts:])
	}
	slices.SortFunc(counts, byNode)
	return counts
}

func byNode(a, b NodeCount) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Flag, b.Flag))
}

func foldRest(kept, rest []NodeCount) []NodeCount {
	place := make(map[NodeID]int) // of the node's count under no flag
	for i, c := range kept {
		if c.Flag == "" {
			place[c.Node] = i
		}
	}
	for _, c := range rest {
		i, ok := place[c.Node]
		if !ok {
			i = len(kept)
			place[c.Node] = i
			kept = append(kept, NodeCount{Node: c.Node})
		}
		kept[i].Sessions += c.Sessions
	}
	return kept
}
