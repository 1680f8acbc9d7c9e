package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestBackoff(t *testing.T) {
	b := backoff{least: 500 * time.Millisecond, most: 30 * time.Second}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 30 * time.Second, 30 * time.Second}
	for _, ceiling := range want {
		require.Equal(t, ceiling, b.ceiling())
		next := b.next(time.Minute)
		require.GreaterOrEqual(t, next, time.Minute)
		require.LessOrEqual(t, next, time.Minute+ceiling)
	}
	b.lasted(stableAfter - 1)
	require.Equal(t, 30*time.Second, b.ceiling(), "a session that did not last")
	b.lasted(stableAfter)
	require.Equal(t, 500*time.Millisecond, b.ceiling())
}

// Full jitter: the draws fill the range, so that many clients do not come back together.
func TestBackoffSpreads(t *testing.T) {
	var quarters [4]int
	for range 1000 {
		b := backoff{least: time.Second, most: time.Minute, attempt: 2}
		quarters[min(3, b.next(0)/time.Second)]++
	}
	for _, n := range quarters {
		require.Greater(t, n, 150)
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "9999999": 0, "60000": 5 * time.Minute,
		time.Now().Add(-time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"): 0,
		time.Now().Add(time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"):  5 * time.Minute} {
		require.Equal(t, want, parseRetryAfter(header), header)
	}
	require.Equal(t, retryAfterMost, retryAfter(schema.ServerFrame{RetryAfterMS: 1 << 62}))
	require.Zero(t, retryAfter(schema.ServerFrame{RetryAfterMS: -5}))
}

func TestSeenForgetsTheOldest(t *testing.T) {
	var s seen
	for i := range seenSize {
		require.True(t, s.add("bob", string(rune('a'+i))))
	}
	require.False(t, s.add("bob", "a"))
	require.True(t, s.add("bob", "new"), "pushes out a")
	require.True(t, s.add("bob", "a"), "pushes out b")
	require.False(t, s.add("bob", "c"))
	require.Len(t, s.keys, seenSize)
	require.True(t, s.add("bob", ""))
	require.True(t, s.add("bob", ""), "without an id nothing can be told apart")
	require.Len(t, s.keys, seenSize)
}

func TestVigil(t *testing.T) {
	const hb = 30 * time.Second
	type step struct {
		at, read time.Duration
		act      vigilAct
		next     time.Duration
	}
	for name, steps := range map[string][]step{
		"quiet gateway": {
			{0, 0, wait, 25 * time.Second}, {25 * time.Second, 0, ping, 25 * time.Second}, {50 * time.Second, 0, ping, 10 * time.Second},
			{60 * time.Second, 0, ping, 5 * time.Second}, {65 * time.Second, 0, giveUp, 0}},
		"answers the probe": {
			{60 * time.Second, 0, ping, 5 * time.Second}, {65 * time.Second, 64 * time.Second, wait, 20 * time.Second},
			{85 * time.Second, 64 * time.Second, ping, 25 * time.Second}, {124 * time.Second, 64 * time.Second, ping, 5 * time.Second}},
		"both busy": {{10 * time.Second, 9 * time.Second, wait, 15 * time.Second}},
	} {
		var v vigil
		for _, s := range steps {
			act, next := v.check(s.at, s.read, hb)
			require.Equal(t, s.act, act, "%s at %v", name, s.at)
			require.Equal(t, s.next, next, "%s at %v", name, s.at)
		}
	}
	var v vigil
	act, _ := v.check(2500*time.Millisecond, 2*time.Second, 3*time.Second)
	require.Equal(t, ping, act, "with short heartbeats the client speaks before it is pinged")
	_, next := new(vigil).check(0, 0, time.Hour)
	require.Equal(t, 25*time.Second, next, "with long ones the path still sees a frame within 30 s")
}

func TestRefreshWait(t *testing.T) {
	const before = 10 * time.Minute
	for _, c := range []struct {
		left   time.Duration
		chance float64
		want   time.Duration
	}{
		{time.Hour, 0, 50 * time.Minute},
		{time.Hour, 1, 55 * time.Minute},
		{5 * time.Minute, 0, 150 * time.Second}, // shorter than before: half of it
		{time.Second, 0, refreshLeast},
		{-time.Hour, 1, refreshLeast},
	} {
		require.Equal(t, c.want, refreshWait(c.left, before, c.chance), "%v", c.left)
	}
}
