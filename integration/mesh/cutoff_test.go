package mesh_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestAGatewayIsCutOff cuts a gateway's connections, both or one of them, for as long as matters: within the
// lease, a little beyond it, and beyond a time to live. Its sockets stay up to that, and go then; its users are
// offline only after its lease has ended, all are online again within 5 s, and nobody else notices.
func TestAGatewayIsCutOff(t *testing.T) {
	for what, links := range map[string]func(*mesh.Gateway) []*bubble.Link{
		"both":    func(g *mesh.Gateway) []*bubble.Link { return []*bubble.Link{g.Control, g.Push} },
		"control": func(g *mesh.Gateway) []*bubble.Link { return []*bubble.Link{g.Control} },
		"push":    func(g *mesh.Gateway) []*bubble.Link { return []*bubble.Link{g.Push} },
	} {
		for _, broken := range []bool{false, true} { // whether the ends are told, or silence is all there is
			t.Run(fmt.Sprintf("%s, told %v", what, broken), func(t *testing.T) {
				mesh.Run(t, mesh.Options{Authorities: 2, Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
					w := newTown(t, m, 16, func(c *client.Config) { c.BackoffMost = time.Second })
					m.Pass(leaseTime)
					for _, away := range []time.Duration{5, 25, 31, 45, 60, 150} {
						a := w.absent(m.Gateways[0])
						for _, l := range links(m.Gateways[0]) {
							l.Cut()
							if broken {
								l.Reset()
							}
						}
						m.Pass(away * time.Second)
						for _, l := range links(m.Gateways[0]) {
							l.Heal()
						}
						healed := time.Now()
						m.Await(time.Minute, "all are online", a.allOnline)
						require.Less(t, time.Since(healed), 5*time.Second, "%d s", away)
						first, ended := a.stop()
						if what == "push" {
							require.Zero(t, first, "its lease stands")
						}
						if first != 0 {
							require.Greater(t, first, leaseTime-4*time.Second, "%d s", away)
						}
						if away*time.Second < 90*time.Second || what == "push" {
							require.Empty(t, ended, "%d s", away)
						} else {
							// Each is closed once; who comes back meanwhile is turned away.
							lost := slices.DeleteFunc(ended, func(c schema.CloseCode) bool { return c == schema.CloseNotNow })
							require.Equal(t, slices.Repeat([]schema.CloseCode{schema.CloseMeshLost}, len(a.devices)), lost)
						}
						m.Truth(w.online...)
						m.Pass(leaseTime)
					}
				})
			})
		}
	}
}

// absent watches the users of a gateway that is cut off, and the others.
type absent struct {
	w       *town
	uids    []schema.UID
	devices []*mesh.Device
	before  int // endings
	begun   time.Time
	first   time.Duration // until one of them was first called offline; 0: none was
	end     func()
}

func (w *town) absent(g *mesh.Gateway) *absent {
	a := &absent{w: w, begun: time.Now()}
	var others []schema.UID
	for i, d := range w.devices {
		if w.m.Gateways[i%2] == g {
			a.uids, a.devices = append(a.uids, d.UID), append(a.devices, d)
		} else {
			others = append(others, d.UID)
		}
	}
	a.before = len(a.codes())
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			found, err := w.m.Lookup(w.t.Context(), append(others[:len(others):len(others)], a.uids...))
			for i, f := range found {
				switch {
				case err != nil || f.State == schema.Online:
				case i < len(others):
					w.t.Errorf("%s is %s", f.UID, f.State)
				case f.State == schema.Offline && a.first == 0:
					a.first = time.Since(a.begun)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(lookEvery):
			}
		}
	})
	a.end = sync.OnceFunc(func() { close(stop); looking.Wait() })
	w.t.Cleanup(a.end)
	return a
}

func (a *absent) allOnline() bool {
	found, err := a.w.m.Lookup(a.w.t.Context(), a.uids)
	for i, f := range found {
		if _, in := a.devices[i].Session(); !in || f.State != schema.Online {
			return false
		}
	}
	return err == nil
}

// stop gives when one of the users was first called offline, and how sessions have ended since.
func (a *absent) stop() (first time.Duration, ended []schema.CloseCode) {
	a.end()
	return a.first, a.codes()[a.before:]
}

// codes gives how sessions of the users have ended so far.
func (a *absent) codes() (all []schema.CloseCode) {
	for _, d := range a.devices {
		all = append(all, codes(d)...)
	}
	return all
}

// TestAGatewayIsAwayInARebuild has an authority die, and a gateway be away while the successor waits for it:
// cut off for a while, or beyond its lease, killed and started again, or drained. Its users are unknown, and
// offline only once its lease has ended; those of the other gateway are never offline.
func TestAGatewayIsAwayInARebuild(t *testing.T) {
	cut := func(d time.Duration) func(m *mesh.Mesh) {
		return func(m *mesh.Mesh) {
			m.Gateways[0].Cut()
			time.AfterFunc(d, m.Gateways[0].Heal)
		}
	}
	for name, c := range map[string]struct {
		away   func(m *mesh.Mesh)
		stands bool // its key, all the while
	}{
		"cut off for 6 s":  {cut(6 * time.Second), true},
		"cut off for 20 s": {cut(20 * time.Second), true},
		"cut off for 45 s": {cut(45 * time.Second), false},
		"killed": {func(m *mesh.Mesh) {
			m.Gateways[0].Kill()
			time.AfterFunc(3*time.Second, func() { m.LaunchGateway("gw-1") })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := mesh.Options{Authorities: 2, Config: mesh.Prompt}
			o.Server.Config = bubble.DisconnectEvents
			mesh.Run(t, o, func(t *testing.T, m *mesh.Mesh) {
				quick := func(c *client.Config) { c.BackoffMost = time.Second }
				w := newTown(t, m, 30, quick)
				m.Pass(leaseTime)
				part := &town{t: t, m: m}
				for i, uid := range w.online {
					if c.stands || i%2 == 1 {
						part.online, part.devices = append(part.online, uid), append(part.devices, w.devices[i])
					}
				}
				unknown := part.watch()
				c.away(m)
				m.Pass(time.Millisecond)
				m.Authorities[0].Kill()
				m.Pass(2 * time.Minute)
				t.Logf("unknown for %v", unknown())
				part.stayed()
				if name == "killed" { // their clients know of the gateway that is gone only
					for i := range w.devices {
						if i%2 == 0 {
							w.devices[i].MoveTo(m.Gateways[1])
						}
					}
				}
				m.Await(time.Minute, "all are back", func() bool {
					found, err := m.Lookup(t.Context(), w.online)
					return err == nil && !slices.ContainsFunc(found, func(f delivery.Found) bool { return f.State != schema.Online })
				})
				m.Truth(w.everybody()...)
			})
		})
	}
}
