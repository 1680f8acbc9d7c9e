package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// phones has users enter a gateway, one phone each.
func phones(g *mesh.Gateway, n int) (users []schema.UID, phones map[schema.UID]*mesh.Socket) {
	phones = map[schema.UID]*mesh.Socket{}
	for i := range n {
		uid := schema.UID(fmt.Sprintf("%s-%d", g.Node, i))
		users = append(users, uid)
		phones[uid] = g.Enter(uid, mesh.As("phone", "app", schema.Master))
	}
	return users, phones
}

// outcome gives, for each user of a push, "device:result" of each route, in the order of the devices.
func outcome(p *delivery.Pushed) map[schema.UID]string {
	by := map[schema.UID]string{}
	for _, u := range p.Users {
		var list []string
		reached := false
		for _, r := range u.Routes {
			list = append(list, string(r.Route.Device)+":"+r.Result.String())
			reached = reached || r.Result.Reached()
		}
		slices.Sort(list)
		by[u.UID] = strings.Join(list, " ")
		if u.Reached != reached {
			by[u.UID] += fmt.Sprint(" but reached is ", u.Reached)
		}
	}
	return by
}

// TestKickedMidBatch kicks some of forty users, in every way there is, while the one message to all of
// them is on its way to their gateway.
func TestKickedMidBatch(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		users, devices := phones(one, 40)
		tablet := one.Enter(users[1], mesh.As("tablet", "web", schema.Slave))
		bySession, _ := devices[users[2]].Current()
		m.Asker.Delay(subjects.Prefix("").Push(one.Me()), 1, time.Second)
		var again []*mesh.Socket
		var wg sync.WaitGroup
		wg.Go(func() {
			m.Pass(500 * time.Millisecond)
			for _, req := range []delivery.KickRequest{{UID: users[0]}, {UID: users[1], Device: "phone"}, {UID: users[2], Session: bySession}} {
				kicked, err := m.Kick(context.Background(), req)
				require.NoError(t, err)
				require.Len(t, kicked, 1)
				require.Equal(t, schema.KickClosed, kicked[0].Result)
			}
			again = append(again, two.Enter(users[3], mesh.As("phone", "app", schema.Master)), two.Enter(users[4], mesh.As("desk", "app", schema.Master)))
		})
		p := pushIn(m, "m1", users)
		wg.Wait()
		want := map[schema.UID]string{}
		for i, uid := range users {
			switch {
			case i == 1:
				want[uid] = "phone:no_session tablet:written"
			case i <= 4:
				want[uid] = "phone:no_session"
			default:
				want[uid] = "phone:written"
			}
		}
		require.Equal(t, want, outcome(p.Pushed))
		require.Less(t, p.took, 1100*time.Millisecond)
		m.Pass(time.Second)
		require.Equal(t, schema.CloseReplaced, devices[users[3]].Ended().Code)
		require.Equal(t, schema.CloseKicked, devices[users[4]].Ended().Code)
		require.Equal(t, 1, tablet.Got("m1"))
		for i, uid := range users {
			require.Equal(t, strings.Contains(want[uid], "phone:written"), devices[uid].Got("m1") == 1, uid)
			require.LessOrEqual(t, devices[uid].Got("m1"), 1, "user %d", i)
		}
		for _, s := range again {
			require.Zero(t, s.Got("m1"), "it came after the look-up")
		}
		m.Truth(users[:6]...) // who was disowned is gone, and nobody else
	})
}

// TestQueueFullMidBatch: some devices of a batch have no room. Exactly those are queue_full, wherever
// they stand in the message; who has another device is reached, who has not gets the fallback.
func TestQueueFullMidBatch(t *testing.T) {
	for name, c := range map[string]struct {
		options []delivery.CallOption
		fill    func(m *mesh.Mesh, uid schema.UID, s *mesh.Socket)
		fine    string // the result of who acknowledges at once
	}{
		"reads no more": {nil, clog, "written"},
		"owes acks":     {[]delivery.CallOption{delivery.AckWait(5 * time.Second)}, owe, "acked"},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Gateway: func(c *gateway.Config) { c.Limits.QueueFrames = 4 }}, func(t *testing.T, m *mesh.Mesh) {
				one, two := m.Gateways[0], m.Gateways[1]
				users, _ := phones(one, 10)
				for _, uid := range users {
					one.Login(uid, "tablet") // a client that acknowledges
				}
				stuck := one.Enter("alice", mesh.As("phone", "app", schema.Slave))
				one.Login("alice", "tablet")
				two.Login("alice", "desk")
				lonely := one.Enter("dave", mesh.As("phone", "app", schema.Slave))
				c.fill(m, "alice", stuck)
				c.fill(m, "dave", lonely)
				missed := make(chan *nats.Msg, 10)
				subject, err := subjects.Prefix("").Fallback("missed")
				require.NoError(t, err)
				_, err = m.Outsider.ChanSubscribe(subject, missed)
				require.NoError(t, err)
				require.NoError(t, m.Outsider.Flush())

				batch := append(append(append(slices.Clone(users[:5]), "alice"), users[5:]...), "dave")
				p := pushIn(m, "m1", batch, append(c.options, delivery.ToFlag("app"), delivery.Fallback("missed"))...)
				got := outcome(p.Pushed)
				require.Equal(t, "desk:"+c.fine+" phone:queue_full tablet:"+c.fine, got["alice"])
				require.Equal(t, "phone:queue_full", got["dave"])
				for _, uid := range users {
					require.Contains(t, got[uid], "tablet:"+c.fine)
				}
				m.Pass(100 * time.Millisecond)
				require.Len(t, missed, 1)
				require.JSONEq(t, `{"id":"m1","uid":"dave","from":"sender","payload":{"n":1},"why":"queue_full"}`, string((<-missed).Data))
				stuck.Resume()
				lonely.Resume()
				m.Pass(time.Second)
				require.Zero(t, stuck.Got("m1")+lonely.Got("m1"), "what was told as queue_full never comes")
			})
		})
	}
}

// clog has a device read no more, and fills what the network and its queue hold.
func clog(m *mesh.Mesh, uid schema.UID, s *mesh.Socket) {
	s.Pause()
	large := json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`)
	for range 1000 {
		p, err := m.Push(context.Background(), delivery.Message{Payload: large}, []schema.UID{uid}, delivery.ToDevice("phone"))
		require.NoError(m.T, err)
		m.Still()
		if p.Users[0].Routes[0].Result == schema.PushQueueFull {
			return
		}
	}
	require.Fail(m.T, "the queue never fills")
}

// owe has a device read all, and acknowledge nothing, until it owes as much as it may.
func owe(m *mesh.Mesh, uid schema.UID, _ *mesh.Socket) {
	for i := range 1025 {
		p, err := m.Push(context.Background(), delivery.Message{ID: fmt.Sprint("owed", i), Payload: json.RawMessage(`1`), Ack: true}, []schema.UID{uid}, delivery.ToDevice("phone"))
		require.NoError(m.T, err)
		m.Still()
		require.Equal(m.T, i < 1024, p.Users[0].Reached)
	}
}

// TestBetweenTwoMessagesOfABatch: forty users of a gateway take two messages, so large is what is sent
// to them. Something befalls those of the second after the first was written. It is told of them
// alone, by name, and the users of another gateway have had theirs all the while.
func TestBetweenTwoMessagesOfABatch(t *testing.T) {
	each := func(act func(m *mesh.Mesh, s *mesh.Socket)) func(*mesh.Mesh, []*mesh.Socket) {
		return func(m *mesh.Mesh, late []*mesh.Socket) {
			for _, s := range late {
				act(m, s)
			}
		}
	}
	var back []*mesh.Socket
	for name, c := range map[string]struct {
		befalls func(m *mesh.Mesh, late []*mesh.Socket)
		want    schema.PushResult
		took    time.Duration // by then the push has ended
	}{
		"nothing": {func(*mesh.Mesh, []*mesh.Socket) {}, schema.PushWritten, time.Second},
		"left":    {each(func(_ *mesh.Mesh, s *mesh.Socket) { s.Leave() }), schema.PushNoSession, time.Second},
		"kicked": {each(func(m *mesh.Mesh, s *mesh.Socket) {
			_, err := m.Kick(context.Background(), delivery.KickRequest{UID: s.User()})
			require.NoError(m.T, err)
		}), schema.PushNoSession, time.Second},
		"owner killed": {func(m *mesh.Mesh, _ []*mesh.Socket) { m.Gateways[0].Kill() }, schema.PushOwnerGone, 1200 * time.Millisecond},
		"owner restarted": {func(m *mesh.Mesh, late []*mesh.Socket) {
			m.Gateways[0].Kill()
			again := m.StartGateway("gw-1") // whose sessions have the numbers of the old ones
			for _, s := range late {
				back = append(back, again.Enter(s.User(), mesh.As("phone", "app", schema.Master)))
			}
		}, schema.PushOwnerGone, 1200 * time.Millisecond},
		"owner vanished": {func(m *mesh.Mesh, _ []*mesh.Socket) { m.Gateways[0].Cut() }, schema.PushUnknown, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
				one, two := m.Gateways[0], m.Gateways[1]
				far, devices := phones(one, 40)
				near, others := phones(two, 5)
				lane := subjects.Prefix("").Push(one.Me())
				m.Asker.Then(lane, func() {}) // the first passes
				m.Asker.Delay(lane, 1, time.Second)
				var late []*mesh.Socket
				var wg sync.WaitGroup
				begun := time.Now()
				wg.Go(func() {
					m.Pass(500 * time.Millisecond)
					for _, s := range devices {
						if s.Got("m1") == 0 {
							late = append(late, s)
						}
					}
					for _, s := range others {
						require.Less(t, s.Next(0, schema.TypeRecv, "m1").At.Sub(begun), 10*time.Millisecond, "held up by another gateway")
					}
					c.befalls(m, late)
				})
				large := json.RawMessage(`"` + strings.Repeat("x", schema.MaxPushBytes-1100) + `"`)
				p, err := m.Push(t.Context(), delivery.Message{ID: "m1", Payload: large}, append(slices.Clone(far), near...))
				require.NoError(t, err)
				took := time.Since(begun)
				wg.Wait()
				require.NotEmpty(t, late)
				require.Less(t, len(late), len(far))
				requireNamed(t, p, one.Node, late, c.want)
				require.LessOrEqual(t, took, c.took+10*time.Millisecond)
				m.Pass(time.Second)
				for uid, s := range devices {
					want := 1
					if c.want != schema.PushWritten && slices.Contains(late, s) {
						want = 0
					}
					require.Equal(t, want, s.Got("m1"), uid)
				}
				for _, s := range back {
					require.Zero(t, s.Got("m1"), "meant for the life before")
				}
				back = nil
			})
		})
	}
}

// requireNamed requires that those who were late have a result, on the gateway named, and all others
// have the message.
func requireNamed(t *testing.T, p *delivery.Pushed, node schema.NodeID, late []*mesh.Socket, want schema.PushResult) {
	t.Helper()
	for _, u := range p.Users {
		require.Len(t, u.Routes, 1)
		if slices.ContainsFunc(late, func(s *mesh.Socket) bool { return s.User() == u.UID }) {
			require.Equal(t, want, u.Routes[0].Result, u.UID)
			require.Equal(t, node, u.Routes[0].Route.Owner.Node)
		} else {
			require.Equal(t, schema.PushWritten, u.Routes[0].Result, u.UID)
		}
		require.Equal(t, u.Routes[0].Result.Reached(), u.Reached)
	}
}

// TestOneStaleSlotOfForty: a slot of forty has another owner, of which delivery has not heard. It alone
// is asked for again, and all are written.
func TestOneStaleSlotOfForty(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		m.Pass(leaseTime) // the bucket is not young any more
		var users []schema.UID
		sockets := map[schema.UID]*mesh.Socket{}
		taken := map[schema.Slot]bool{}
		for i := 0; len(users) < 40; i++ {
			uid := schema.UID(fmt.Sprint("u", i))
			if slot := subjects.SlotOf(uid); !taken[slot] {
				taken[slot] = true
				users = append(users, uid)
				sockets[uid] = m.Gateways[i%2].Enter(uid)
			}
		}
		asked := make(chan struct{}, 100)
		_, err := m.Outsider.Subscribe("authority.*.*.lookup", func(*nats.Msg) { asked <- struct{}{} })
		require.NoError(t, err)
		require.NoError(t, m.Outsider.Flush())
		lookups := func(id string) int {
			m.Pass(100 * time.Millisecond) // the outsider hears by itself
			for len(asked) > 0 {
				<-asked
			}
			p := pushIn(m, id, users)
			for i, line := range p.lines() {
				require.Equal(t, string(users[i])+" true written", line)
			}
			require.Less(t, p.took, 50*time.Millisecond)
			m.Pass(100 * time.Millisecond)
			return len(asked)
		}
		require.Equal(t, 2, lookups("before"))

		was := m.Find(users[17]).Target
		next := m.Authorities[0]
		if was.Authority == next.Me() {
			next = m.Authorities[1]
		}
		m.Asker.LoseIn("presence.changed.>", -1)      // all, or the next one would show the gap
		m.Asker.Lose("$JS.API.CONSUMER.CREATE.>", -1) // nor does a snapshot come in its turn
		m.Overwrite(subjects.SlotKey(was.Slot), schema.SlotValue{Node: next.Me().Node, Boot: next.Me().Boot})
		m.Pass(200 * time.Millisecond)
		require.Equal(t, 3, lookups("stale"))
		require.Equal(t, next.Me(), m.Find(users[17]).Target.Authority)
		require.Equal(t, 2, lookups("after"), "it has learnt")
		for uid, s := range sockets {
			for _, id := range []string{"before", "stale", "after"} {
				require.Equal(t, 1, s.Got(id), uid)
			}
		}
	})
}
