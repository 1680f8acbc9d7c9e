package mesh_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// inTime is how long a login may take that meets a session of its device, whatever has become of
// that session's gateway.
const inTime = 2500 * time.Millisecond

// TestGatewayDies has 200 users come back to another gateway with the devices that they had on the
// one that has died. Where the server has seen it die their conflicts end by proof, in 200 ms; where
// it just fell silent nothing proves anything, and they end after 2 s.
func TestGatewayDies(t *testing.T) {
	for _, c := range []struct {
		name        string
		die         func(*mesh.Gateway)
		least, most time.Duration // that a login takes
	}{
		{"killed", (*mesh.Gateway).Kill, 0, 400 * time.Millisecond},
		{"vanished", (*mesh.Gateway).Vanish, 2 * time.Second, inTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
				one, two := m.Gateways[0], m.Gateways[1]
				var devices []*mesh.Device
				var users []schema.UID
				for i := range 200 {
					users = append(users, schema.UID(fmt.Sprintf("user %d", i)))
					devices = append(devices, one.Login(users[i], "phone", mesh.Master))
				}
				told := m.Follow()
				for _, d := range devices {
					d.MoveTo(two)
				}
				c.die(one)
				m.Await(10*time.Second, "all are back", func() bool { return allAt(two, devices) })
				for _, d := range devices {
					took := dialled(t, d)
					require.Less(t, took, c.most, d.UID)
					require.GreaterOrEqual(t, took, c.least, d.UID)
					require.Equal(t, []schema.CloseCode{schema.CloseAbnormal}, codes(d), "%s was sent away", d.UID)
				}
				m.Truth(users...)
				m.Pass(2 * time.Minute) // its lease and the time to live of its routes end
				m.Truth(users...)
				for _, uid := range users {
					require.Equal(t, []string{"removed replaced", "added connect"}, told.Of(uid), uid)
				}
			})
		})
	}
}

func allAt(g *mesh.Gateway, devices []*mesh.Device) bool {
	for _, d := range devices {
		if info, ok := d.Session(); !ok || info.Gateway != g.Me() {
			return false
		}
	}
	return true
}

// dialled gives how long a device's present session took, from its dial to its login.
func dialled(t *testing.T, d *mesh.Device) time.Duration {
	t.Helper()
	changes := d.Changes()
	n := len(changes)
	require.Equal(t, []client.Phase{client.Connecting, client.Connected}, []client.Phase{changes[n-2].Phase, changes[n-1].Phase})
	return changes[n-1].At.Sub(changes[n-2].At)
}

// codes gives how a device's connections have ended.
func codes(d *mesh.Device) (codes []schema.CloseCode) {
	for _, lost := range d.Ends() {
		codes = append(codes, lost.Code)
	}
	return codes
}

// TestGhostsOfADeadGateway shows users of a dead gateway who do not come back for no longer than
// its lease.
func TestGhostsOfADeadGateway(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		one := m.Gateways[0]
		one.Login("alice", "phone").MoveTo(one)
		told := m.Follow()
		one.Kill()
		m.Pass(25 * time.Second)
		require.Equal(t, schema.Online, m.Find("alice").State)
		require.Equal(t, []schema.PushResult{schema.PushOwnerGone}, mesh.Results(m.PushTo("alice", "m")))
		m.Await(10*time.Second, "its lease has ended", func() bool { return m.Find("alice").State == schema.Offline })
		m.Pass(time.Second)
		require.Equal(t, []string{"offline owner_lost"}, told.Of("alice"))
	})
}

// TestRestartedGateway has a killed gateway come back under its name at once: its old sessions
// count for nothing from then on, and clients are in without a wait.
func TestRestartedGateway(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		d := m.Gateways[0].Login("alice", "phone")
		m.Gateways[0].Login("bob", "phone").Vanish()
		m.Gateways[0].Kill()
		again := m.StartGateway("gw-1")
		d.MoveTo(again)
		m.Await(5*time.Second, "back", func() bool { _, ok := d.Session(); return ok })
		require.Less(t, dialled(t, d), 50*time.Millisecond)
		m.Truth("alice", "bob")
	})
}

// TestKickIsNotAnswered keeps a living gateway from saying that a displaced session is out. The new
// login waits 2 s and is in. From then on the old session is never seen again, and it is closed
// with the right code: as soon as its gateway can be reached, at the latest with its next touch.
func TestKickIsNotAnswered(t *testing.T) {
	for _, silence := range silences {
		for _, c := range comebacks {
			t.Run(silence.name+", "+c.name, func(t *testing.T) {
				mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) { silence.play(t, m, c) })
			})
		}
	}
}

// comeback is a login that displaces a session of device d1, and how that one is told.
type comeback struct {
	name  string
	login func(old schema.SessionID) []func(*schema.ClientFrame)
	end   schema.CloseCode
}

var comebacks = []comeback{
	{"same device", login(mesh.As("d1", "app", schema.Master)), schema.CloseReplaced},
	{"other device", login(mesh.As("d2", "app", schema.Master)), schema.CloseKicked},
	{"resumed on what looks like another device", func(old schema.SessionID) []func(*schema.ClientFrame) {
		return login(mesh.As("d2", "web", schema.Slave), mesh.Resume(old))("")
	}, schema.CloseReplaced},
}

// silence keeps a gateway's word from the one that asks.
type silence struct {
	name  string
	begin func(*mesh.Gateway) (end func())
	lasts time.Duration
	// The old session is closed so long after the silence began.
	least, most time.Duration
	// It has said goodbye to its authority before the new one is in: nobody is there for a moment.
	between bool
}

var silences = []silence{
	{"answers are lost", func(g *mesh.Gateway) func() {
		return g.Control.Lose("_INBOX.>", -1).Remove
	}, 20 * time.Second, 0, time.Millisecond, true},
	{"kicks are lost", func(g *mesh.Gateway) func() {
		kicks, touches := g.Control.LoseIn("kick.>", -1), g.Control.Lose("slot.*.*.touch", -1)
		return func() { kicks.Remove(); touches.Remove() }
	}, 20 * time.Second, 20 * time.Second, 26 * time.Second, false},
	{"kicks are lost for ever", func(g *mesh.Gateway) func() {
		g.Control.LoseIn("kick.>", -1)
		return func() {}
	}, 20 * time.Second, 0, 10 * time.Second, false},
	{"gateway is cut off", func(g *mesh.Gateway) func() {
		g.Cut()
		return g.Heal
	}, 9 * time.Second, 9 * time.Second, 15 * time.Second, false},
	{"gateway is cut off for long", func(g *mesh.Gateway) func() {
		g.Cut()
		return g.Heal
	}, 20 * time.Second, 20 * time.Second, 26 * time.Second, false},
}

func (s silence) play(t *testing.T, m *mesh.Mesh, c comeback) {
	one, two := m.Gateways[0], m.Gateways[1]
	old := one.Enter("alice", mesh.As("d1", "app", schema.Master))
	before, _ := old.Current()
	seen := probe(t, m, "alice")
	mend := s.begin(one)
	began := time.Now()
	fresh := two.Hello("alice", c.login(before)...)
	took := fresh.Connected().At.Sub(began)
	require.Less(t, took, inTime)
	require.GreaterOrEqual(t, took, 2*time.Second)
	after, _ := fresh.Current()
	m.Pass(s.lasts - took)
	mend()
	last := old.Ended()
	require.Equal(t, c.end, last.Code)
	require.GreaterOrEqual(t, last.At.Sub(began), s.least)
	require.LessOrEqual(t, last.At.Sub(began), s.most)
	m.Pass(ttl + 10*time.Second)
	want := []string{string(before), string(after)}
	if s.between {
		want = []string{string(before), string(schema.Offline), string(after)}
	}
	require.Equal(t, want, seen(), "first the one session, then the other, nothing else")
	m.Truth("alice")
}

// probe looks a user up all the time until the function returned is called, which tells what was
// seen, one after the other.
func probe(t *testing.T, m *mesh.Mesh, uid schema.UID) (seen func() []string) {
	var all []string
	stop := make(chan struct{})
	var probing sync.WaitGroup
	probing.Go(func() {
		for {
			if now := mesh.Describe(m.Find(uid)); len(all) == 0 || all[len(all)-1] != now {
				all = append(all, now)
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	end := sync.OnceFunc(func() { close(stop); probing.Wait() })
	t.Cleanup(end)
	return func() []string { end(); return all }
}
