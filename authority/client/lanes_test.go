package client

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// slowLanes carries each batch in a second and tells what it was.
func slowLanes(c *Client, limit, most int, carried chan<- []int) *Lanes[string, int] {
	take := func(waiting []int) int { return min(most, len(waiting)) }
	return NewLanes(c, limit, take, func(_ context.Context, _ string, batch []int) {
		time.Sleep(time.Second)
		carried <- slices.Clone(batch)
	})
}

func TestLanesCombineWhatComesMeanwhile(t *testing.T) {
	run(t, newView(), newNATS(), func(t *testing.T, c *Client) {
		carried := make(chan []int, 10)
		l := slowLanes(c, 100, 3, carried)
		begun := time.Now()
		for i := range 6 {
			require.NoError(t, l.Add("k", i))
			synctest.Wait()
		}
		time.Sleep(time.Millisecond)
		require.NoError(t, l.Add("other", 9))
		require.Equal(t, []int{0}, <-carried, "an idle lane waits for nobody")
		require.Equal(t, []int{9}, <-carried, "lanes do not wait for each other")
		require.NoError(t, l.Add("k", 6))
		require.Equal(t, time.Second+time.Millisecond, time.Since(begun))
		require.Equal(t, []int{1, 2, 3}, <-carried)
		require.Equal(t, []int{4, 5, 6}, <-carried, "what take left goes first")
		require.Equal(t, 3*time.Second, time.Since(begun))
		synctest.Wait()
		require.Empty(t, l.busy, "an idle lane is nothing")
	})
}

func TestLanesRefuse(t *testing.T) {
	run(t, newView(), newNATS(), func(t *testing.T, c *Client) {
		carried := make(chan []int, 10)
		l := slowLanes(c, 2, 1, carried)
		for i := range 3 {
			require.NoError(t, l.Add("k", i))
		}
		require.ErrorIs(t, l.Add("k", 3), ErrFull)
		require.NoError(t, l.Add("other", 4), "only that lane is full")
		time.Sleep(time.Minute)
		require.Len(t, carried, 4)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClient(newNATS(), newView(), Config{})
		l := slowLanes(c, 2, 1, nil)
		require.ErrorIs(t, l.Add("k", 1), ErrStopped, "Run has not begun")
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, c.Run(ctx))
		require.ErrorIs(t, l.Add("k", 1), ErrStopped)
		require.Empty(t, l.busy)
	})
}

// Who finds a lane idle carries his own entry, alone and under his own context; what came meanwhile
// is not his to wait for.
func TestLanesAreLedByTheirFirst(t *testing.T) {
	run(t, newView(), newNATS(), func(t *testing.T, c *Client) {
		under := make(chan context.Context, 2)
		take := func(waiting []int) int { return len(waiting) }
		l := NewLanes(c, 100, take, func(ctx context.Context, _ string, batch []int) {
			under <- ctx
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		})
		time.AfterFunc(100*time.Millisecond, func() {
			require.Zero(t, took(func() { require.NoError(t, l.Do(t.Context(), "k", 2)) }), "a busy lane does not hold up")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.Equal(t, 300*time.Millisecond, took(func() { require.NoError(t, l.Do(ctx, "k", 1)) }))
		require.Equal(t, ctx, <-under)
		require.Equal(t, c.life, <-under)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, l.busy)
	})
}

func TestRunWaitsForLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(newNATS(), newView(), Config{})
		ctx, stop := context.WithCancel(t.Context())
		carried := make(chan []int, 10)
		l := slowLanes(c, 2, 1, carried)
		time.AfterFunc(time.Second, func() {
			_ = l.Add("k", 1)
			_ = l.Add("k", 2)
			stop()
		})
		require.Equal(t, 3*time.Second, took(func() { _ = c.Run(ctx) }))
		require.Len(t, carried, 2)
	})
}
