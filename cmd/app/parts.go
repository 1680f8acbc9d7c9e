package app

import (
	"context"
	"errors"
	"sync"
)

// part is something that runs beside others: it returns when ctx ends and all that it started has
// stopped.
type part func(ctx context.Context) error

// together runs parts side by side until all have ended. The first one to end, with an error or
// without, ends the others. The first error is returned; that a context ended is none, whatever the
// cause of that.
func together(parent context.Context, parts ...part) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	defer cancel()
	defer context.AfterFunc(parent, cancel)()
	ended := make(chan error, len(parts))
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() {
			ended <- p(ctx)
			cancel()
		})
	}
	wg.Wait()
	close(ended)
	for err := range ended {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// onTop runs upper, which calls on lower all the time: at the end upper is stopped first, and lower
// only when upper has ended.
func onTop(ctx context.Context, lower, upper part) error {
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	return together(ctx,
		func(context.Context) error { return lower(below) },
		func(ctx context.Context) error {
			defer stop()
			return upper(ctx)
		})
}
