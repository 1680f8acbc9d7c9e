package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// visitor is a client beside the fleet, for one login.
type visitor struct {
	client *ws.Client
	states chan ws.State // what becomes of it; the last ones where nobody reads
	leave  func()        // says goodbye and waits until that is done
}

// visit begins a login at a gateway.
func visit(t *testing.T, g *unit, uid schema.UID, device schema.DeviceID) *visitor {
	t.Helper()
	v := &visitor{states: make(chan ws.State, 64)}
	var err error
	v.client, err = ws.New(ws.Config{
		URL: "ws://" + g.address + "/ws", Token: ws.FixedToken(string(uid)), Device: device,
		BackoffLeast: 10 * time.Millisecond, BackoffMost: 10 * time.Millisecond,
		OnState: func(s ws.State) {
			select {
			case v.states <- s:
			default:
			}
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = v.client.Run(ctx) }) // how it ended stands in its states
	v.leave = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(v.leave)
	return v
}

// next waits for a state of some phase.
func (v *visitor) next(t *testing.T, phase ws.Phase, most time.Duration) ws.State {
	t.Helper()
	late := time.After(most)
	for {
		select {
		case s := <-v.states:
			if s.Phase == phase {
				return s
			}
		case <-late:
			require.FailNow(t, "the client is not "+phase.String(), "within %v", most)
		}
	}
}

// enter logs a device in, gives how long it took, and leaves.
func (s *stage) enter(g *unit, uid schema.UID, device schema.DeviceID, most time.Duration) time.Duration {
	s.t.Helper()
	begun := time.Now()
	v := visit(s.t, g, uid, device)
	v.next(s.t, ws.Connected, most)
	took := time.Since(begun)
	v.leave()
	return took
}
