package mesh_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// withoutBucket keeps everybody from JetStream until the function returned is called.
func withoutBucket(m *mesh.Mesh) (restore func()) {
	var rules []*bubble.Rule
	lose := func(l *bubble.Link) {
		for _, subject := range []string{"$KV.>", "$JS.API.>"} {
			rules = append(rules, l.Lose(subject, -1))
		}
	}
	for _, a := range m.Authorities {
		lose(a.Link)
	}
	for _, g := range m.Gateways {
		lose(g.Control)
		lose(g.Push)
	}
	lose(m.Asker)
	return func() {
		for _, r := range rules {
			r.Remove()
		}
	}
}

// TestWithoutJetStream has nobody reach the bucket for two minutes. Who is connected stays so, is found and
// gets what is sent, marked suspect; who leaves or is kicked is gone; who comes is told when to come again. An
// authority that dies then has no successor: its users are unknown, and nobody is ever called offline.
func TestWithoutJetStream(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2, Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 30)
		leaver, kicked := m.Gateways[0].Enter("leaver"), m.Gateways[1].Enter("kicked")
		m.Pass(leaseTime)
		told, boots := m.Follow(), []schema.Process{m.Authorities[0].Me(), m.Authorities[1].Me()}
		held := w.fences()
		sure := w.watch()
		restore := withoutBucket(m)
		for i := range 60 {
			m.Pass(time.Second)
			for _, uid := range w.online {
				require.True(t, m.PushTo(uid, fmt.Sprintf("%s %d", uid, i)).Reached, "%s after %d s", uid, i)
			}
		}
		require.Zero(t, sure(), "nobody was unknown")
		require.True(t, m.Find(w.online[0]).Suspect && m.Find(w.offline[0]).Suspect)
		m.Still()
		for n, d := range w.devices {
			for i := range 60 {
				require.Equal(t, 1, d.Got(fmt.Sprintf("%s %d", w.online[n], i)))
			}
		}

		leaver.Leave()
		m.Pass(time.Second)
		require.Equal(t, schema.Offline, m.Find("leaver").State)
		var reply schema.KickReply
		code, why := m.Call("kick", schema.KickCall{UID: "kicked"}, &reply)
		require.Empty(t, code, why)
		require.Equal(t, schema.CloseRemoved, kicked.Ended().Code)
		m.Pass(time.Second)
		require.Equal(t, schema.Offline, m.Find("kicked").State)
		for _, g := range m.Gateways {
			at := time.Now()
			late := g.Hello("latecomer")
			end := late.Ended()
			require.Equal(t, schema.CloseNotNow, end.Code)
			require.LessOrEqual(t, end.At.Sub(at), 5*time.Second)
			hint := late.Frames()[0].ServerFrame
			require.Equal(t, schema.FrameUnavailable, hint.Code)
			require.Positive(t, hint.RetryAfterMS)
		}

		lives, dies := w.of("a-1", true), w.of("a-2", true)
		sure, unknown := lives.watch(), dies.watch()
		m.Authorities[1].Kill()
		m.Pass(50 * time.Second)
		require.Equal(t, schema.Unknown, m.Find(dies.online[0]).State)
		require.False(t, m.PushTo(dies.online[0], "to the unknown").Reached)
		require.Zero(t, sure())

		restore()
		m.Served(leaseTime + 10*time.Second)
		require.Greater(t, unknown(), 50*time.Second)
		require.Equal(t, boots[0], m.Authorities[0].Me())
		for i, uid := range w.everybody() {
			found := m.Find(uid)
			require.Equal(t, boots[0], found.Target.Authority)
			require.GreaterOrEqual(t, found.Target.Fence, held[i])
		}
		w.unmoved(told)
		m.Gateways[0].Enter("latecomer")
		m.Truth("latecomer", "leaver", "kicked")
	})
}

// guests come and go until stop is called, through each gateway in turn, a few at a time.
func guests(m *mesh.Mesh) (stop func() int) {
	var coming sync.WaitGroup
	var mu sync.Mutex
	ended, in := make(chan struct{}), 0
	for i := range 4 {
		coming.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				case <-time.After(97 * time.Millisecond):
				}
				d := m.Gateways[(i+n)%len(m.Gateways)].Connect(schema.UID(fmt.Sprintf("guest %d %d", i, n)), "phone")
				for range 100 {
					if _, ok := d.Session(); ok {
						mu.Lock()
						in++
						mu.Unlock()
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				d.Leave()
			}
		})
	}
	return func() int { close(ended); coming.Wait(); return in }
}

// TestAnAuthoritysConnectionIsCut cuts the connection of one authority after the other for as long as the
// others wait for its return, a little less, a little more, and much more. Back in time nothing moves; else
// its slots do. Nobody is called offline, and nobody commits under a fence that another has followed.
func TestAnAuthoritysConnectionIsCut(t *testing.T) {
	o := mesh.Options{Authorities: 3, Config: mesh.Prompt}
	o.Server.Config = bubble.DisconnectEvents
	mesh.Run(t, o, func(t *testing.T, m *mesh.Mesh) {
		w := newTown(t, m, 12)
		m.Pass(leaseTime)
		told := m.Follow()
		unknown, stop := w.watch(), guests(m)
		for n, away := range []time.Duration{
			0, 20 * time.Millisecond, 50 * time.Millisecond, 80 * time.Millisecond, 90 * time.Millisecond, 95 * time.Millisecond,
			99 * time.Millisecond, 100 * time.Millisecond, 101 * time.Millisecond, 105 * time.Millisecond, 110 * time.Millisecond,
			150 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 25 * time.Second, 40 * time.Second,
		} {
			a := m.Authorities[n%3]
			before := w.fences()
			a.Link.Cut()
			a.Link.Reset()
			m.Pass(away)
			a.Link.Heal()
			m.Pass(500 * time.Millisecond)
			if away <= 80*time.Millisecond {
				require.Equal(t, before, w.fences(), "cut for %v", away)
			}
			m.Settled(time.Minute)
			for i, fence := range w.fences() {
				require.GreaterOrEqual(t, fence, before[i])
			}
		}
		require.Greater(t, stop(), 100, "people came in meanwhile")
		require.Less(t, unknown(), time.Second)
		told.CommittedInTurn()
		w.unmoved(told)
	})
}
