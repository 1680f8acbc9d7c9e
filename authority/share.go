package authority

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rollcall-mesh/rollcall/schema"
)

// inFlight bounds the slots that a worker hands over at a time.
const inFlight = 8

// move is one slot on its way to another worker.
type move struct {
	target schema.Target // as it is held here
	to     schema.Process
}

// evenOut gives the moves that this worker owes the others: while the largest share is more than
// one above the smallest, the largest (of equals the lowest name) hands one slot to the smallest.
// Otherwise nothing moves: a slot stays where it is.
func evenOut(me schema.Process, live []schema.Process, shares map[schema.Process]int, mine []schema.Target) (moves []move) {
	shares = maps.Clone(shares)
	for len(moves) < inFlight && len(moves) < len(mine) {
		largest, smallest := extremes(live, shares)
		if largest != me || shares[largest]-shares[smallest] <= 1 {
			return moves
		}
		moves = append(moves, move{mine[len(moves)], smallest})
		shares[largest]--
		shares[smallest]++
	}
	return moves
}

// handAll gives the moves of a worker that leaves: each slot to whoever then has the smallest share.
func handAll(others []schema.Process, shares map[schema.Process]int, mine []schema.Target) (moves []move) {
	if len(others) == 0 {
		return nil
	}
	shares = maps.Clone(shares)
	for _, t := range mine {
		_, smallest := extremes(others, shares)
		moves = append(moves, move{t, smallest})
		shares[smallest]++
	}
	return moves
}

// extremes gives the largest and the smallest share; of equals the lowest name.
func extremes(live []schema.Process, shares map[schema.Process]int) (largest, smallest schema.Process) {
	live = slices.SortedFunc(slices.Values(live), func(a, b schema.Process) int {
		return cmp.Compare(a.Node, b.Node)
	})
	largest, smallest = live[0], live[0]
	for _, p := range live[1:] {
		if shares[p] > shares[largest] {
			largest = p
		}
		if shares[p] < shares[smallest] {
			smallest = p
		}
	}
	return largest, smallest
}
