package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var errPart = errors.New("part failed")

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestTogetherEndsWithTheFirst(t *testing.T) {
	fail := func(context.Context) error { return errPart }
	done := func(context.Context) error { return nil }
	require.ErrorIs(t, together(t.Context(), wait, fail, wait), errPart)
	require.NoError(t, together(t.Context(), wait, done))
}

func TestTogetherEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errPart) // as a signal does: no failure of a part
	require.NoError(t, together(ctx, wait, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	require.ErrorIs(t, together(ctx, wait, func(ctx context.Context) error {
		<-ctx.Done()
		return errPart // while it was stopping
	}), errPart)
}

func TestOnTopStopsTheUpperFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		slow := make(chan struct{})
		lower := func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, "lower")
			return nil
		}
		upper := func(ctx context.Context) error {
			<-ctx.Done()
			<-slow
			order = append(order, "upper")
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- onTop(ctx, lower, upper) }()
		cancel()
		synctest.Wait()
		require.Empty(t, order)
		close(slow)
		require.NoError(t, <-ended)
		require.Equal(t, []string{"upper", "lower"}, order)
	})
}

func TestOnTopEndsWhenEitherFails(t *testing.T) {
	fail := func(context.Context) error { return errPart }
	require.ErrorIs(t, onTop(t.Context(), wait, fail), errPart)
	require.ErrorIs(t, onTop(t.Context(), fail, wait), errPart)
}
