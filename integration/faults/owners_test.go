package faults

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// owners follows who owns which slot, as the bucket says.
type owners struct {
	view *lease.View

	mu    sync.Mutex
	moves []moved
}

// moved is a slot's key written anew.
type moved struct {
	at time.Time
	to schema.Target
}

func watchOwners(t *testing.T, servers []*server) *owners {
	t.Helper()
	b, err := lease.Open(t.Context(), connect(t, servers, deploy.Operator, "faults/owners"), lease.Options{})
	require.NoError(t, err)
	o := &owners{view: lease.NewView(b, nil)}
	last := [schema.Slots]schema.Target{}
	o.view.Subscribe(func(c lease.Change) { // one after the other
		if c.Slot != nil && c.Slot.Target != last[c.Slot.Target.Slot] {
			last[c.Slot.Target.Slot] = c.Slot.Target
			o.mu.Lock()
			o.moves = append(o.moves, moved{time.Now(), c.Slot.Target})
			o.mu.Unlock()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = o.view.Run(ctx) }) // ends with ctx, or the connection that outlives it
	t.Cleanup(func() { cancel(); running.Wait() })
	<-o.view.Ready()
	return o
}

// slots gives the slots that an authority owns.
func (o *owners) slots(u *unit) (list []schema.Slot) {
	for _, s := range every() {
		if t, ok := o.view.Target(s); ok && t.Authority.Node == schema.NodeID(u.node) {
			list = append(list, s)
		}
	}
	return list
}

// succeeded reports whether each of some slots has an owner, other than the one it had, who is not known to
// be gone. That it is not the former owner's is less: a slot is nobody's from when he is known to be gone
// until somebody claims it.
func (o *owners) succeeded(u *unit, slots []schema.Slot) bool {
	return !slices.ContainsFunc(slots, func(s schema.Slot) bool {
		t, ok := o.view.Target(s)
		return !ok || t.Authority.Node == schema.NodeID(u.node)
	})
}

// targets gives what every slot's key says.
func (o *owners) targets() (list [schema.Slots]schema.Target) {
	for _, s := range every() {
		list[s], _ = o.view.Target(s)
	}
	return list
}

// since gives the moves since a moment.
func (o *owners) since(from time.Time) (list []moved) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.moves {
		if m.at.After(from) {
			list = append(list, m)
		}
	}
	return list
}
