package mesh_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/integration/watching"
	"github.com/rollcall-mesh/rollcall/schema"
)

// many is how many users are watched, and by as many clients.
var many = flag.Int("watchers", 200, "clients that watch as many users: 1000 in the full form")

// gallery is a mesh whose users are watched by clients and backends through everything.
type gallery struct {
	*mesh.Mesh
	t         *testing.T
	r         *rand.Rand
	uids      []schema.UID
	steady    map[schema.UID]schema.UserState
	restless  []schema.UID
	sockets   map[schema.UID]*mesh.Socket
	devices   []*mesh.Device
	onlookers []*watching.Onlooker
}

func openGallery(t *testing.T, m *mesh.Mesh, n int) *gallery {
	g := &gallery{Mesh: m, t: t, r: rand.New(rand.NewPCG(7, 9)), steady: map[schema.UID]schema.UserState{}, sockets: map[schema.UID]*mesh.Socket{}}
	for i := range n {
		uid := schema.UID(fmt.Sprintf("user %d", i))
		g.uids = append(g.uids, uid)
		switch i % 4 {
		case 0:
			g.steady[uid] = schema.Online
			m.Gateways[0].Enter(uid, mesh.As("phone", "app", schema.Master))
		case 1:
			g.steady[uid] = schema.Offline
		default:
			g.restless = append(g.restless, uid)
		}
	}
	for i := range n {
		name := fmt.Sprintf("client %d", i)
		o := watching.New(name, g.steady)
		d := m.Gateways[i%len(m.Gateways)].Login(schema.UID(name), "d", func(c *client.Config) {
			c.OnPresence = func(users []schema.WatchedUser) { o.Take(users...) }
		})
		require.NoError(t, d.Watch(t.Context(), g.uids...))
		g.devices, g.onlookers = append(g.devices, d), append(g.onlookers, o)
	}
	for i := range 4 {
		o := watching.New(fmt.Sprintf("backend %d", i), g.steady)
		followThen(m, time.Duration(i)*time.Millisecond, o.Take, g.uids...)
		g.onlookers = append(g.onlookers, o)
	}
	return g
}

// churn has restless users come and go for a while, on some gateways.
func (g *gallery) churn(d time.Duration, gateways ...*mesh.Gateway) {
	for end := time.Now().Add(d); time.Now().Before(end); g.Pass(20 * time.Millisecond) {
		uid := g.restless[g.r.IntN(len(g.restless))]
		if s := g.sockets[uid]; s != nil && s.Open() {
			s.Kill()
			delete(g.sockets, uid)
			continue
		}
		g.sockets[uid] = gateways[g.r.IntN(len(gateways))].Hello(uid, mesh.As("phone", "app", schema.Master))
	}
}

// leave has the clients of a gateway dial another one from their next connection on.
func (g *gallery) leave(from int, to *mesh.Gateway) {
	for i, d := range g.devices {
		if i%3 == from {
			d.MoveTo(to)
		}
	}
}

// TestWatchersSeeTheTruth has clients and backends watch users through connects, crashes, failovers,
// drains, and a while in which the watches of clients rest. After it has settled every view is the truth; meanwhile nobody who stays is told to
// have gone or come, and no stamp goes back.
func TestWatchersSeeTheTruth(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2, Gateways: 3, Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		g := openGallery(t, m, *many)
		one, two, three := m.Gateways[0], m.Gateways[1], m.Gateways[2]
		g.churn(2*time.Second, one, two, three)
		g.leave(2, two)
		three.Kill()
		g.churn(time.Second, one, two)
		m.Authorities[1].Kill()
		g.churn(2*time.Second, one, two)
		m.StartAuthority("a-3")
		g.churn(8*time.Second, one, two) // while the shares are evened out
		one.Push.Cut()
		m.Asker.Cut()
		g.churn(time.Second, two)
		one.Push.Heal()
		m.Asker.Heal()
		m.Configure(func(c *schema.Config) { c.WatchOff = true })
		g.churn(time.Second, one, two)
		m.Configure(func(c *schema.Config) { c.WatchOff = false })
		g.churn(time.Second, one, two)
		require.NoError(t, m.Authorities[0].Stop())
		g.churn(time.Second, one, two)
		g.leave(1, one)
		g.leave(2, one)
		require.NoError(t, two.Stop())
		g.churn(time.Second, one)
		one.Push.LoseIn("event.>", 20)
		g.churn(time.Second, one)
		one.Push.Reset() // which tells the gateway that it may have missed something
		m.Pass(2 * time.Minute)

		found, err := m.Lookup(t.Context(), g.uids)
		require.NoError(t, err)
		verdict := watching.Judge(g.onlookers, found)
		t.Logf("%d watchers of %d users: %d frames that named %d users", len(g.onlookers), len(g.uids), verdict.Frames, verdict.Users)
		require.True(t, verdict.Fair(), verdict.String())
		for i, f := range found {
			if keeps := g.steady[g.uids[i]]; keeps != "" {
				require.Equal(t, keeps, f.State)
			}
		}
	})
}
