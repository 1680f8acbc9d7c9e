package faults

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// owners follows who owns which slot, as the bucket says.
type owners struct {
	nc   *nats.Conn
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
	nc := connect(t, servers, deploy.Operator, "faults/owners")
	b, err := lease.Open(t.Context(), nc, lease.Options{})
	require.NoError(t, err)
	o := &owners{nc: nc, view: lease.NewView(b, nil)}
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

// member gives what is heard of a process's key.
func (o *owners) member(u *unit) lease.Member {
	for _, m := range o.view.Members(lease.Role(u.role)) {
		if m.Process.Node == schema.NodeID(u.node) {
			return m
		}
	}
	return lease.Member{}
}

// process gives the present life of a gateway.
func (o *owners) process(g *unit) schema.Process { return o.member(g).Process }

// hearing is how much later than the processes this program may hear of a renewal, on a busy machine.
const hearing = 100 * time.Millisecond

// leaseLeft is what is at least left of a process's lease, as others count it: from when they heard of
// the last renewal.
func (o *owners) leaseLeft(u *unit) time.Duration {
	return o.view.Config().Lease() - o.member(u).Quiet - hearing
}

// renewed gives the revision of each living process's last renewal.
func (o *owners) renewed() map[schema.Process]schema.Revision {
	last := map[schema.Process]schema.Revision{}
	for _, r := range []lease.Role{lease.Authority, lease.Gateway} {
		for _, m := range o.view.Members(r) {
			if m.Alive() {
				last[m.Process] = m.Revision
			}
		}
	}
	return last
}

// renewedSince reports whether every living process has renewed its lease since renewed gave what it did.
func (o *owners) renewedSince(before map[schema.Process]schema.Revision) bool {
	for p, now := range o.renewed() {
		if now <= before[p] {
			return false
		}
	}
	return true
}

// returns tells when an authority is first heard to serve over another connection than it does now.
func (o *owners) returns(t *testing.T, u *unit) <-chan time.Time {
	t.Helper()
	before := o.member(u).Value.Conn
	back := make(chan time.Time, 1)
	sub, err := o.nc.Subscribe(strings.TrimSuffix(prefix.Changed(), ">")+subjects.AuthorityKey(schema.NodeID(u.node)), func(m *nats.Msg) {
		var v schema.ProcessValue
		if json.Unmarshal(m.Data, &v) == nil && v.State == schema.StateServing && v.Conn != before {
			select {
			case back <- time.Now():
			default:
			}
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // or its connection is closed
	require.NoError(t, o.nc.Flush())
	return back
}
