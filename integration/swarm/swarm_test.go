package swarm_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	seeds = flag.Int("seeds", 3, "how many runs")
	from  = flag.Uint64("from", 1, "the seed of the first")
	only  = flag.Uint64("seed", 0, "the seed of the only one")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a run makes much garbage and keeps little
	goleak.VerifyTestMain(m)
}

// TestSwarm plays one seed after the other. One that fails says which, what befell its mesh, and what
// was said of the users that went wrong.
func TestSwarm(t *testing.T) {
	first, count := *from, *seeds
	if *only != 0 {
		first, count = *only, 1
	}
	var total counts
	for seed := range uint64(count) {
		t.Run(fmt.Sprintf("seed %d", first+seed), func(t *testing.T) {
			total.add(try(t, first+seed))
		})
	}
	t.Logf("%d runs: %+v", count, total)
	if count >= 20 && !t.Failed() {
		for _, n := range []int{total.pairs, total.frames, total.kicks, total.leaves, total.losers, total.stood, total.offline, total.exiles} {
			require.NotZero(t, n, "each invariant was put to the test")
		}
	}
}

// stuckAfter is a real time that no run takes: somebody is busy without end, at one moment.
const stuckAfter = 5 * time.Minute

func try(t *testing.T, seed uint64) counts {
	p := draw(seed)
	stuck := time.AfterFunc(stuckAfter, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d: virtual time stands still\n%s", seed, p))
	})
	defer stuck.Stop()
	defer func() {
		if t.Failed() {
			t.Logf("again: make swarm SEED=%d\n%s", seed, p)
		}
	}()
	r := play(t, p)
	if r == nil {
		return counts{}
	}
	j := judgeRun(r)
	var told []schema.UID
	for _, w := range j.wrong {
		t.Error(w.text)
		if w.uid != "" && !slices.Contains(told, w.uid) {
			told = append(told, w.uid)
			t.Log(j.story(w.uid, w.at))
		}
	}
	t.Logf("settled after %v, at most %v; %+v", r.settled.last, p.bounds(), j.counts)
	return j.counts
}
