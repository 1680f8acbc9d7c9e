package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func at(k uint64) schema.Stamp { return schema.Stamp{Fence: 10, K: k} }

// TestDoubtOutlivesAnswers: what comes into doubt while a look-up is under way is looked up once more,
// whatever its answer says; the next look-up ends it.
func TestDoubtOutlivesAnswers(t *testing.T) {
	w := NewWatched("bob")
	w.Ask()
	w.Learn(Found{State: schema.Offline, Stamp: at(1)})
	require.False(t, w.Stale)
	for _, answer := range []Found{
		{State: schema.Online, Stamp: at(2)},
		{State: schema.Offline, Stamp: at(1)}, // older than what is known
		{State: schema.Unknown, Why: WhyUnreachable},
	} {
		w.Ask()
		w.Stale = true
		w.Learn(answer)
		require.True(t, w.Stale, answer)
	}
	w.Ask()
	w.Learn(Found{State: schema.Offline, Stamp: at(1)})
	require.False(t, w.Stale, "older, but there is no doubt")
	w.Ask()
	w.Learn(Found{State: schema.Unknown, Why: WhyUnreachable})
	require.True(t, w.Stale, "nothing was found out")
}

// TestMoreEventsThanAreKept has more of them come during the first look-up than are kept for its end.
func TestMoreEventsThanAreKept(t *testing.T) {
	for _, c := range []struct {
		events int
		stale  bool
	}{{maxEarly, false}, {maxEarly + 1, true}} {
		w := NewWatched("bob")
		w.Ask()
		for k := range c.events {
			require.False(t, w.Apply(schema.Event{Type: schema.EventOnline, UID: "bob", Stamp: at(uint64(k) + 1)}))
		}
		w.Learn(Found{State: schema.Offline, Stamp: at(0)})
		require.Equal(t, c.stale, w.Stale, c.events)
		require.Equal(t, at(maxEarly), *w.Shown().Stamp)
	}
}

// TestFirstAnswerShows where it says more than unknown.
func TestFirstAnswerShows(t *testing.T) {
	w := NewWatched("bob")
	require.False(t, w.Learn(Found{State: schema.Unknown, Why: WhyUnowned}))
	require.True(t, w.Learn(Found{State: schema.Offline, Stamp: at(1)}))
	require.False(t, w.Learn(Found{State: schema.Offline, Stamp: at(2)}))
}

// TestForget: nothing is known, and what is learnt later is not older than what was.
func TestForget(t *testing.T) {
	w := NewWatched("bob")
	w.Learn(Found{State: schema.Online, Stamp: at(5)})
	w.Forget()
	require.True(t, w.Stale)
	require.Equal(t, schema.WatchedUser{UID: "bob", State: string(schema.Unknown)}, w.Shown())
	w.Ask()
	require.False(t, w.Learn(Found{State: schema.Offline, Stamp: at(4)}))
	require.True(t, w.Stale, "that was asked before")
	w.Ask()
	require.True(t, w.Learn(Found{State: schema.Offline, Stamp: at(5)}))
	require.Equal(t, at(5), *w.Shown().Stamp)
}
