package swarm_test

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// run is a plan on its way. The test's goroutine takes the steps, one after the other.
type run struct {
	*plan
	t     *testing.T
	m     *mesh.Mesh
	trace *trace
	quiet atomic.Bool // the faults have stopped

	// owned by the test's goroutine
	people     []*person
	down       bool               // the server is
	due        map[string]bool    // processes to be started as soon as that can be
	still      map[string][]*stay // whose network stands still with their gateway's
	stopAsking func()
	settled    settled

	mu          sync.Mutex
	authorities map[string]*mesh.Authority
	gateways    map[string]*mesh.Gateway
	looks       []look
	pushes      []push
}

// play runs a plan and gives what came of it; nil where the run itself has failed.
func play(t *testing.T, p *plan) (done *run) {
	r := &run{
		plan: p, trace: new(trace), due: map[string]bool{}, still: map[string][]*stay{},
		authorities: map[string]*mesh.Authority{}, gateways: map[string]*mesh.Gateway{},
	}
	o := mesh.Options{Bare: true, Disk: p.disk, Config: func(c *schema.Config) { *c = p.config }}
	o.Gateway = func(c *gateway.Config) { c.Drain.Rate = 100 }
	o.Server.Tap = r.trace.tap
	if p.proofs {
		o.Server.Config = bubble.DisconnectEvents
	}
	mesh.Run(t, o, func(t *testing.T, m *mesh.Mesh) {
		r.t, r.m = t, m
		r.trace.start()
		r.raise()
		r.takeSteps()
		r.calm()
		r.settle()
		done = r
	})
	return done
}

// raise starts everything at once.
func (r *run) raise() {
	for _, node := range r.nodes() {
		r.start(node)
	}
	r.m.StartDelivery()
	for n, who := range r.plan.people {
		r.people = append(r.people, newPerson(r, n, who))
	}
	r.ask()
}

func (r *run) takeSteps() {
	for _, s := range r.steps {
		if s.at >= r.plan.calm {
			break
		}
		r.until(s.at)
		s.do(r)
		r.startDue()
	}
	r.until(r.plan.calm)
}

func (r *run) until(at time.Duration) { time.Sleep(at - r.trace.now().at) }

// calm ends all faults, and starts what is down.
func (r *run) calm() {
	r.quiet.Store(true)
	r.startServer()
	for _, node := range slices.Sorted(maps.Keys(r.still)) {
		r.unpause(node)
	}
	for _, node := range append(r.nodes(), "delivery") {
		for _, l := range r.links(place{node: node}) {
			l.Mend()
			l.Heal()
		}
	}
	for _, p := range r.people {
		p.silence(false)
	}
}
