package swarm_test

import (
	"context"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// ending is how a process or a person goes.
type ending uint8

const (
	goodbye  ending = iota // in good order
	killed                 // its connections break
	vanished               // nobody is told
)

// start starts a process, as soon as the server is up and who had its name has ended.
func (r *run) start(node string) {
	r.due[node] = true
	r.startDue()
}

func (r *run) startDue() {
	for _, node := range slices.Sorted(maps.Keys(r.due)) {
		if r.down || r.authority(node) != nil || r.gateway(node) != nil {
			continue
		}
		delete(r.due, node)
		r.trace.note(marks + node + ".started")
		if isAuthority(node) {
			keep(r, r.authorities, node, r.m.LaunchAuthority(schema.NodeID(node)))
		} else {
			keep(r, r.gateways, node, r.m.LaunchGateway(schema.NodeID(node)))
		}
	}
}

func keep[P any](r *run, in map[string]P, node string, p P) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in[node] = p
}

// authority gives a running one, else nil.
func (r *run) authority(node string) *mesh.Authority {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.authorities[node]; a != nil && !closed(a.Done()) {
		return a
	}
	return nil
}

// gateway gives a running one, else nil.
func (r *run) gateway(node string) *mesh.Gateway {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g := r.gateways[node]; g != nil && !closed(g.Done()) {
		return g
	}
	return nil
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// reachable gives the gateways that a load balancer would choose from, by name.
func (r *run) reachable() (list []*mesh.Gateway) {
	for _, node := range r.nodes() {
		if g := r.gateway(node); g != nil {
			list = append(list, g)
		}
	}
	return list
}

// end ends a process. One that stops in good order holds its name until it has; nobody waits for it
// here.
func (r *run) end(node string, how ending) {
	a, g := r.authority(node), r.gateway(node)
	switch {
	case a == nil && g == nil:
		return
	case a != nil && how == goodbye:
		go a.Stop()
	case a != nil && how == killed:
		a.Kill()
	case a != nil:
		a.Vanish()
	case how == goodbye:
		go g.Stop()
	case how == killed:
		g.Kill()
	default:
		g.Vanish()
	}
	if how != goodbye {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.authorities, node)
		delete(r.gateways, node)
	}
}

// pause cuts a gateway off on all sides: nobody hears anything of it, nor it of anybody.
func (r *run) pause(node string) {
	r.cut(place{node: node})
	for _, p := range r.people {
		if s := p.staying(); s != nil && s.at() == node {
			s.silence(true)
			r.still[node] = append(r.still[node], s)
		}
	}
}

func (r *run) unpause(node string) {
	r.heal(place{node: node})
	for _, s := range r.still[node] {
		s.silence(false)
	}
	delete(r.still, node)
}

func (r *run) stopServer() {
	if r.down {
		return
	}
	r.down = true
	r.m.Server.Stop()
	if !r.disk {
		r.trace.note(bucketLost)
	}
}

func (r *run) startServer() {
	if !r.down {
		return
	}
	r.m.Server.Start()
	r.down = false
	r.startDue()
}

// deleteBucket is an operator's mistake. Where the server is down nothing comes of it.
func (r *run) deleteBucket() {
	r.trace.note(bucketLost)
	_ = r.m.Outsider.Publish("$JS.API.STREAM.DELETE."+subjects.Prefix("").BucketStream(), nil)
}

// deleteSlots is one too: whose they are is not known any more.
func (r *run) deleteSlots() {
	for _, uid := range r.uids() {
		m := nats.NewMsg(subjects.Prefix("").BucketKey(subjects.SlotKey(subjects.SlotOf(uid))))
		m.Header.Set("KV-Operation", "DEL")
		_ = r.m.Outsider.PublishMsg(m)
	}
}

// kick is an operator's, who does not wait for what comes of it.
func (r *run) kick(uid schema.UID) {
	bubble.Go(r.t, func(ctx context.Context) error {
		_, err := r.m.Kick(ctx, delivery.KickRequest{UID: uid})
		return err
	})
}
