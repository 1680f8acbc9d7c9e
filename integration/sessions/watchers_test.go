package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/integration/watching"
	"github.com/rollcall-mesh/rollcall/schema"
)

// How many watch how many.
const (
	watchingClients  = 100
	watchingBackends = 2
	lateBackends     = 30 // that begin in a failover
	watchedUsers     = 200
)

// gallery is a mesh whose users are watched by clients and backends through everything.
type gallery struct {
	*mesh
	delivery  *delivery.Delivery // the backends'
	r         *rand.Rand
	uids      []schema.UID
	steady    map[schema.UID]schema.UserState // who is in one state throughout
	restless  []schema.UID
	here      map[schema.UID]*device // who is there, or on the way
	onlookers []*watching.Onlooker   // the clients first
}

// openGallery has a quarter of the users log in to the first gateway for good, and a quarter never; it
// returns when all watch all.
func openGallery(m *mesh) *gallery {
	m.t.Helper()
	g := &gallery{mesh: m, r: rand.New(rand.NewPCG(3, 5)), steady: map[schema.UID]schema.UserState{}, here: map[schema.UID]*device{}}
	for i := range watchedUsers {
		uid := schema.UID(fmt.Sprintf("user %d", i))
		g.uids = append(g.uids, uid)
		switch i % 4 {
		case 0:
			g.steady[uid], g.here[uid] = schema.Online, m.connect(m.gateways[0], uid, phone)
		case 1:
			g.steady[uid] = schema.Offline
		default:
			g.restless = append(g.restless, uid)
		}
	}
	for _, d := range g.here {
		require.NoError(m.t, d.login())
	}
	g.onlookers = make([]*watching.Onlooker, watchingClients)
	require.NoError(m.t, inParallel(watchingClients, 16, g.watch))
	nc := m.nats.Connect(deploy.Delivery)
	var err error
	g.delivery, err = delivery.New(nc)
	require.NoError(m.t, err)
	m.t.Cleanup(g.delivery.Close)
	for i := range watchingBackends {
		g.onlookers = append(g.onlookers, g.follow(fmt.Sprintf("backend %d", i)))
	}
	m.eventually("all see all", func() bool { return g.judge().Fair() })
	return g
}

// watch has a client watch all, on one of the gateways; it comes back by itself.
func (g *gallery) watch(i int) error {
	name := fmt.Sprintf("client %d", i)
	o := watching.New(name, g.steady)
	g.onlookers[i] = o
	c, err := client.New(client.Config{
		URL: "ws://" + g.gateways[i%2].address + "/ws", Token: client.FixedToken(name), Device: phone,
		OnPresence: func(users []schema.WatchedUser) { o.Take(users...) },
	})
	if err != nil {
		return err
	}
	g.running.Go(func() { _ = c.Run(g.devices) }) // it ends with the test
	ctx, cancel := context.WithTimeout(g.devices, patience)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		return err
	}
	return c.Watch(ctx, g.uids...)
}

// follow has a backend watch all.
func (g *gallery) follow(name string) *watching.Onlooker {
	o := watching.New(name, g.steady)
	g.running.Go(func() {
		for seen, err := range g.delivery.Watch(g.devices, g.uids) {
			if err == nil && seen.Kind != delivery.Resync {
				o.Take(seen.WatchedUser)
			}
		}
	})
	return o
}

// churn has restless users come and go for a while, on some gateways.
func (g *gallery) churn(d time.Duration, gateways ...*gateway) {
	g.t.Helper()
	step, end := time.NewTicker(10*time.Millisecond), time.After(d)
	defer step.Stop()
	for {
		select {
		case <-end:
			return
		case <-step.C:
		}
		uid := g.restless[g.r.IntN(len(g.restless))]
		if there := g.here[uid]; there != nil {
			there.leave()
			delete(g.here, uid)
			continue
		}
		g.here[uid] = g.connect(gateways[g.r.IntN(len(gateways))], uid, phone)
	}
}

func (g *gallery) judge() watching.Verdict {
	g.t.Helper()
	return watching.Judge(g.onlookers, g.found())
}

// found is what a look-up says.
func (g *gallery) found() []delivery.Found {
	g.t.Helper()
	found, err := g.delivery.Lookup(g.t.Context(), g.uids)
	require.NoError(g.t, err)
	return found
}

// asHeld reports whether a look-up shows exactly those users whose devices hold a session.
func (g *gallery) asHeld() bool {
	for _, f := range g.found() {
		held := false
		if d := g.here[f.UID]; d != nil {
			_, held = d.current()
		}
		if held != (f.State == schema.Online) || f.State == schema.Unknown {
			return false
		}
	}
	return true
}

// restart starts a process that was killed, or has ended, under its name.
func (g *gallery) restart(at *gateway) *gateway {
	g.t.Helper()
	again := g.startGateway(at.node, at.address)
	again.serves()
	return again
}

// TestWatchersSeeTheTruth has watches rest, and kills and drains authorities and gateways, while users
// come and go. After it has settled every view is the truth; meanwhile nobody who stays is told to have
// gone or come, and no stamp goes back.
func TestWatchersSeeTheTruth(t *testing.T) {
	m := newMesh(t, append([]string{"--grace", "0"}, steady...)...)
	g := openGallery(m)
	begun := time.Now()
	one, two := m.gateways[0], m.gateways[1]
	g.churn(time.Second, one, two)

	g.setWatch(t, "off")
	m.eventually("all watches rest", func() bool { return g.clients(atRest) })
	g.churn(500*time.Millisecond, one, two)
	require.True(t, g.clients(atRest))
	m.authorities[0].Signal(syscall.SIGKILL)
	g.setWatch(t, "on") // so that everybody is looked up while half of the slots are rebuilt
	for i := range lateBackends {
		g.onlookers = append(g.onlookers, g.follow(fmt.Sprintf("late backend %d", i)))
		g.churn(20*time.Millisecond, one, two)
	}
	g.churn(500*time.Millisecond, one, two)
	m.authorities[0] = process.StartWith(t, m.nats.As(deploy.Authority), "authority", "--node", "a-1")
	g.churn(time.Second, one, two)
	two.Signal(syscall.SIGKILL)
	two.Wait()
	g.churn(500*time.Millisecond, one)
	two = g.restart(two)
	g.churn(time.Second, one, two)

	m.authorities[1].Signal(syscall.SIGTERM)
	g.churn(time.Second, one, two)
	require.Zero(t, m.authorities[1].Wait())
	two.Signal(syscall.SIGTERM)
	g.churn(500*time.Millisecond, one)
	require.Zero(t, two.Wait())
	two = g.restart(two)
	g.churn(500*time.Millisecond, one, two)
	churned := time.Since(begun)

	defer func() {
		if t.Failed() {
			t.Log(g.judge())
		}
	}()
	m.eventually("look-ups show who is there", g.asHeld)
	m.eventually("every view is the truth", func() bool { return len(g.judge().Wrong) == 0 })
	verdict := g.judge()
	t.Logf("%d clients and %d backends watch %d users through %v: settled %v later; %d frames that named %d users", watchingClients, watchingBackends+lateBackends,
		watchedUsers, churned.Round(time.Millisecond), (time.Since(begun) - churned).Round(time.Millisecond), verdict.Frames, verdict.Users)
	require.True(t, verdict.Fair(), verdict.String())
}

func (g *gallery) setWatch(t *testing.T, to string) {
	t.Helper()
	r := process.Run(t, g.nats.As(deploy.Operator), "", "setup", "--watch="+to)
	require.Zero(t, r.Code, r.Err)
}

// clients reports whether something holds of all that the clients see.
func (g *gallery) clients(is func(schema.WatchedUser) bool) bool {
	for _, o := range g.onlookers[:watchingClients] {
		if !o.All(g.uids, is) {
			return false
		}
	}
	return true
}

func atRest(u schema.WatchedUser) bool {
	return u.State == string(schema.Unknown) && u.Reason == string(schema.FrameWatchOff)
}
