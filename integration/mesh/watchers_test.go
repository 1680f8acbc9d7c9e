package mesh_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// many is how many users are watched, and by as many clients.
var many = flag.Int("watchers", 200, "clients that watch as many users: 1000 in the full form")

// onlooker is a client, or a backend, that keeps what it is told of users, and what it must not be.
type onlooker struct {
	name   string
	steady map[schema.UID]string // state that a user keeps throughout

	mu       sync.Mutex
	seen     map[schema.UID]schema.WatchedUser
	frames   int
	users    int      // in them
	back     []string // where a stamp went back
	invented []string // where a user who stayed was told to have gone, or the reverse
}

func newOnlooker(name string, steady map[schema.UID]string) *onlooker {
	return &onlooker{name: name, steady: steady, seen: make(map[schema.UID]schema.WatchedUser)}
}

func (o *onlooker) take(users ...schema.WatchedUser) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames++
	o.users += len(users)
	for _, u := range users {
		before := o.seen[u.UID]
		if before.Stamp != nil && u.Stamp != nil && u.Stamp.Compare(*before.Stamp) < 0 {
			o.back = append(o.back, fmt.Sprintf("%s: %s was told %v after %v", o.name, u.UID, *u.Stamp, *before.Stamp))
		}
		if keeps := o.steady[u.UID]; keeps != "" && u.State != keeps && u.State != string(schema.Unknown) {
			o.invented = append(o.invented, fmt.Sprintf("%s: %s was told %s (%s)", o.name, u.UID, u.State, u.Reason))
		}
		if u.Stamp == nil { // unknown has none, and does not end the order
			u.Stamp = before.Stamp
		}
		o.seen[u.UID] = u
	}
}

// wrong gives where the onlooker's view is not what was found.
func (o *onlooker) wrong(found []delivery.Found) (list []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range found {
		var devices, seen []string
		for i := range f.Routes {
			devices = append(devices, string(f.Routes[i].Device))
		}
		u := o.seen[f.UID]
		for _, d := range u.Devices {
			seen = append(seen, string(d.Device))
		}
		slices.Sort(devices)
		slices.Sort(seen)
		if u.State != string(f.State) || !slices.Equal(devices, seen) {
			list = append(list, fmt.Sprintf("%s: %s is %s %v, seen %s %v", o.name, f.UID, f.State, devices, u.State, seen))
		}
	}
	return list
}

// gallery is a mesh whose users are watched by clients and backends through everything.
type gallery struct {
	*mesh.Mesh
	t         *testing.T
	r         *rand.Rand
	uids      []schema.UID
	steady    map[schema.UID]string
	restless  []schema.UID
	sockets   map[schema.UID]*mesh.Socket
	devices   []*mesh.Device
	onlookers []*onlooker
}

func openGallery(t *testing.T, m *mesh.Mesh, n int) *gallery {
	g := &gallery{Mesh: m, t: t, r: rand.New(rand.NewPCG(7, 9)), steady: map[schema.UID]string{}, sockets: map[schema.UID]*mesh.Socket{}}
	for i := range n {
		uid := schema.UID(fmt.Sprintf("user %d", i))
		g.uids = append(g.uids, uid)
		switch i % 4 {
		case 0:
			g.steady[uid] = string(schema.Online)
			m.Gateways[0].Enter(uid, mesh.As("phone", "app", schema.Master))
		case 1:
			g.steady[uid] = string(schema.Offline)
		default:
			g.restless = append(g.restless, uid)
		}
	}
	for i := range n {
		o := newOnlooker(fmt.Sprintf("client %d", i), g.steady)
		d := m.Gateways[i%len(m.Gateways)].Login(schema.UID(o.name), "d", func(c *client.Config) {
			c.OnPresence = func(users []schema.WatchedUser) { o.take(users...) }
		})
		require.NoError(t, d.Watch(t.Context(), g.uids...))
		g.devices, g.onlookers = append(g.devices, d), append(g.onlookers, o)
	}
	for i := range 4 {
		o := newOnlooker(fmt.Sprintf("backend %d", i), g.steady)
		followThen(m, time.Duration(i)*time.Millisecond, o.take, g.uids...)
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

// TestWatchersSeeTheTruth has clients and backends watch users through connects, crashes, failovers
// and drains. After it has settled every view is the truth; meanwhile nobody who stays is told to
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
		var wrong, back, invented []string
		frames, users := 0, 0
		for _, o := range g.onlookers {
			wrong = append(wrong, o.wrong(found)...)
			back, invented = append(back, o.back...), append(invented, o.invented...)
			frames, users = frames+o.frames, users+o.users
		}
		t.Logf("%d watchers of %d users: %d frames that named %d users", len(g.onlookers), len(g.uids), frames, users)
		few := func(list []string) string { return strings.Join(list[:min(len(list), 20)], "\n") }
		require.True(t, len(wrong)+len(back)+len(invented) == 0, "%d views are wrong:\n%s\n%d stamps went back:\n%s\n%d were invented:\n%s",
			len(wrong), few(wrong), len(back), few(back), len(invented), few(invented))
		for i, f := range found {
			if keeps := g.steady[g.uids[i]]; keeps != "" {
				require.Equal(t, keeps, string(f.State))
			}
		}
	})
}
