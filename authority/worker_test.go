package authority

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
)

// A single serving loop that takes nothing from its queue, be it of slots or of requests to the process,
// costs the lease: no renewal is sent without its probe.
func TestEachServingLoopIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := New(nil, nil, nil, Config{Node: "a-1"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		probe := func() error {
			probing, done := context.WithTimeout(ctx, time.Second)
			defer done()
			return w.probe(probing)
		}
		for _, l := range append(w.loops, w.asks) {
			require.ErrorIs(t, probe(), lease.ErrWedged)
			running.Go(func() { l.Run(ctx) })
		}
		require.NoError(t, probe())
	})
}
