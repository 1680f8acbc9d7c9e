package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const prefix = subjects.Prefix("")

// patience bounds the waits for what has no bound of its own to be tested.
const patience = 90 * time.Second

// scene says what a stage is made of; the zero value is one server without disconnect events.
type scene struct {
	pass    pass
	servers int      // default 1
	events  bool     // the account imports the server's disconnect events
	proxied []string // nodes that reach NATS through a proxy of their own
	// sessions and pushes a second; default: the campaign's load
	sessions, pushes int
}

// stage is a mesh of real processes, its users, and those who ask about them.
type stage struct {
	t           *testing.T
	scene       scene
	servers     []*server
	proxies     map[string]*proxy
	authorities []*unit
	gateways    []*unit
	delivery    *unit
	backend     *nats.Conn
	owners      *owners
	fleet       *fleet
	ledger      *ledger
	probe       *probe
}

// newStage starts three authorities, two gateways and delivery, connects the users, and waits until
// the mesh is settled and its bucket is not young any more.
func newStage(t *testing.T, l length, sc scene) *stage {
	t.Helper()
	begun := time.Now()
	if sc.sessions == 0 {
		sc.sessions, sc.pushes = l.load()
	}
	s := &stage{t: t, scene: sc, proxies: map[string]*proxy{}}
	s.servers = newServers(t, max(1, sc.servers), sc.events)
	for _, node := range sc.proxied {
		s.proxies[node] = newProxy(t, s.servers[0].listen)
	}
	s.setup()
	made := time.Now()
	for i := range 3 {
		s.authorities = append(s.authorities, s.unit(deploy.Authority, fmt.Sprintf("a-%d", i+1)))
	}
	for i, address := range freeAddresses(t, 2) {
		g := s.unit(deploy.Gateway, fmt.Sprintf("gw-%d", i+1), "--listen", address, "--auth", "insecure")
		g.address = address
		s.gateways = append(s.gateways, g)
	}
	s.delivery = s.unit(deploy.Delivery, "d-1")
	for _, u := range s.units() {
		u.start()
	}
	s.backend = connect(t, s.servers, deploy.Backend, "faults/backend")
	s.owners = watchOwners(t, s.servers)
	for _, u := range s.units() {
		u.proc.Line(u.sign())
	}
	s.fleet = newFleet(t, s.gateways, sc.sessions)
	s.settle()
	// Young is younger than a lease, by the servers' clock, which is heard with the renewals.
	pause(t, sc.pass.lease+sc.pass.lease/10-time.Since(made))
	s.probe = startProbe(t, s.backend, s.fleet, probeEvery)
	s.ledger = startPushes(t, s.backend, s.fleet, sc.pushes)
	t.Logf("%d sessions, %d pushes/s, %s, events imported: %v: ready in %v; load average %s",
		sc.sessions, sc.pushes, sc.pass.name, sc.events, time.Since(begun).Round(time.Millisecond), loadAverage())
	return s
}

// setup makes the bucket with the pass's settings.
func (s *stage) setup() {
	s.t.Helper()
	args := []string{"setup", "--lease", s.scene.pass.lease.String(), "--heartbeat", s.scene.pass.heartbeat.String(), "--ttl", s.scene.pass.ttl.String()}
	if len(s.servers) > 1 {
		args = append(args, "--replicas", "3")
	}
	until(s.t, patience, "the bucket is made", func() bool { // a cluster elects its leaders first
		return process.Run(s.t, s.env(deploy.Operator, addresses(s.servers)), "", args...).Code == 0
	})
}

func (s *stage) env(u deploy.User, servers string) process.Env {
	return process.Env{"ROLLCALL_NATS=" + servers, "ROLLCALL_USER=" + string(u), "ROLLCALL_PASSWORD=" + secret}
}

// call asks the service presence for one thing.
func call[T any](ctx context.Context, nc *nats.Conn, name string, request any) (reply T, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return reply, err
	}
	m, err := nc.RequestWithContext(ctx, prefix.ServiceCall(name), body)
	if err != nil {
		return reply, err
	}
	if text := m.Header.Get("Nats-Service-Error"); text != "" {
		return reply, fmt.Errorf("%s: %s", name, text)
	}
	return reply, json.Unmarshal(m.Data, &reply)
}

// settle waits until every user is connected and shown, every slot ready, and the shares even.
func (s *stage) settle() {
	s.t.Helper()
	until(s.t, patience, "all users are connected", func() bool { return s.fleet.connected() == len(s.fleet.users) })
	until(s.t, patience, "slots are ready, shares even", s.even)
	until(s.t, patience, "all users are online", func() bool { return s.missing() == 0 })
}

// even reports whether every slot is ready, no living authority has two more than another, and this
// program has heard of all owners.
func (s *stage) even() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	reply, err := call[schema.SlotsReply](ctx, s.backend, "slots", struct{}{})
	if err != nil || len(reply.Slots) != schema.Slots {
		return false
	}
	shares := map[schema.NodeID]int{}
	for _, p := range reply.Processes {
		if p.Role == string(deploy.Authority) && p.State == schema.StateServing {
			shares[p.Node] = 0
		}
	}
	for _, slot := range reply.Slots {
		heard, _ := s.owners.view.Target(slot.Slot)
		if _, lives := shares[slot.Owner]; !lives || slot.State != schema.SlotReady || slot.Fence != heard.Fence {
			return false
		}
		shares[slot.Owner]++
	}
	least, most := schema.Slots, 0
	for _, n := range shares {
		least, most = min(least, n), max(most, n)
	}
	return most-least <= 1 && len(shares) == s.running()
}

// running counts the authorities whose process has not ended.
func (s *stage) running() (n int) {
	for _, u := range s.authorities {
		if u.proc.Running() {
			n++
		}
	}
	return n
}

// missing counts the users that look-ups do not show online.
func (s *stage) missing() (n int) {
	for _, r := range s.lookup(s.fleet.users) {
		if r.State != schema.Online {
			n++
		}
	}
	return n
}

// allOnline reports whether look-ups show all of some users.
func (s *stage) allOnline(users []*user) bool {
	for _, r := range s.lookup(users) {
		if r.State != schema.Online {
			return false
		}
	}
	return true
}

// lookup asks for users; of whom there is no answer the state is unknown.
func (s *stage) lookup(users []*user) []schema.UserReply {
	all := make([]schema.UserReply, 0, len(users))
	for some := range slices.Chunk(users, schema.MaxCallUIDs) {
		uids := make([]schema.UID, len(some))
		for i, u := range some {
			uids[i] = u.uid
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		reply, err := call[schema.LookupReply](ctx, s.backend, "lookup", schema.LookupCall{UIDs: uids})
		cancel()
		if err != nil || len(reply.Results) != len(some) {
			reply.Results = make([]schema.UserReply, len(some))
			for i := range reply.Results {
				reply.Results[i].State = schema.Unknown
			}
		}
		all = append(all, reply.Results...)
	}
	return all
}
