package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func message(id string) delivery.Message {
	return delivery.Message{ID: id, From: "bob", Payload: json.RawMessage(`{"text":"hi"}`)}
}

// results tells what became of a push, user by user: "uid state reached node:result ...".
func results(p *delivery.Pushed) []string {
	list := make([]string, len(p.Users))
	for i, u := range p.Users {
		list[i] = fmt.Sprintf("%s %s %v", u.UID, u.State, u.Reached)
		for _, r := range u.Routes {
			list[i] += fmt.Sprintf(" %s:%s", r.Route.Owner.Node, r.Result)
		}
	}
	return list
}

func TestPush(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		phone := g1.login(t, "alice", "phone", "app")
		g2.login(t, "alice", "desk", "web")
		g2.login(t, "bob", "phone", "app")
		push := func(uids []schema.UID, options ...delivery.CallOption) []string {
			p, err := m.Push(t.Context(), message("m1"), uids, options...)
			require.NoError(t, err)
			require.Equal(t, "m1", p.ID)
			return results(p)
		}
		require.Equal(t, []string{"bob online true gw-2:written", "nobody offline false", "alice online true gw-2:written gw-1:written", "bob online true gw-2:written"},
			push([]schema.UID{"bob", "nobody", "alice", "bob"}))
		require.Equal(t, []string{"m1>alice#1"}, g1.pushed())
		require.ElementsMatch(t, []string{"m1>alice#1", "m1>bob#2"}, g2.pushed(), "each session once")

		require.Equal(t, []string{"alice online true gw-1:written"}, push([]schema.UID{"alice"}, delivery.ToDevice("phone")))
		require.Equal(t, []string{"alice online true gw-2:written"}, push([]schema.UID{"alice"}, delivery.ToFlag("web")))
		require.Equal(t, []string{"alice online true gw-2:written"}, push([]schema.UID{"alice"},
			delivery.Except(schema.Except{UID: "alice", Node: "gw-1", Boot: g1.me.Boot, Session: g1.name(phone)})))
		require.Equal(t, []string{"alice online true gw-2:written gw-1:written"}, push([]schema.UID{"alice"},
			delivery.Except(schema.Except{UID: "alice", Node: "gw-2", Boot: g1.me.Boot, Session: g1.name(phone)})), "of another node: it is not that session")
	})
}

func TestPushDrawsIDs(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		a, err := m.Push(t.Context(), message(""), []schema.UID{"nobody"})
		require.NoError(t, err)
		b, err := m.Push(t.Context(), message(""), []schema.UID{"nobody"})
		require.NoError(t, err)
		require.NotEmpty(t, a.ID)
		require.NotEqual(t, a.ID, b.ID)
	})
}

func TestPendingIsTriedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		activeAfter, took time.Duration
		tries             int
		want              string
	}{
		"active at once": {0, 0, 1, "alice online true gw-1:written gw-1:written"},
		"soon":           {100 * time.Millisecond, 150 * time.Millisecond, 5, "alice online true gw-1:written gw-1:written"},
		"never":          {time.Hour, 630 * time.Millisecond, 7, "alice online true gw-1:written gw-1:unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m *mesh) {
				g := m.gateway("gw-1")
				first := g.login(t, "alice", "a", "app")
				g.login(t, "alice", "b", "app")
				begun := time.Now()
				g.set(func(g *gateway) {
					g.result = func(_ *schema.PushFrame, r schema.Recipient) schema.PushResult {
						if r.Session == first.Session && time.Since(begun) < tc.activeAfter {
							return schema.PushPending
						}
						return schema.PushWritten
					}
				})
				p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice"})
				require.NoError(t, err)
				require.Equal(t, tc.took, time.Since(begun))
				require.Equal(t, []string{tc.want}, results(p))
				require.Len(t, g.pushed(), tc.tries+1, "only who was pending is tried again")
				time.Sleep(time.Second)
				require.Equal(t, schema.Online, state(t, m, "alice"), "a pending session is never removed")
			})
		})
	}
}

func state(t *testing.T, m *mesh, uid schema.UID) schema.UserState {
	t.Helper()
	found, err := m.Lookup(t.Context(), []schema.UID{uid})
	require.NoError(t, err)
	return found[0].State
}

func TestDisownedRoutesAreRemoved(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		ghost := g.login(t, "alice", "ghost", "app")
		g.login(t, "alice", "phone", "app")
		g.set(func(g *gateway) {
			g.result = func(_ *schema.PushFrame, r schema.Recipient) schema.PushResult {
				if r.Session == ghost.Session {
					return schema.PushNoSession
				}
				return schema.PushWritten
			}
		})
		p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice online true gw-1:written gw-1:no_session"}, results(p))
		time.Sleep(100 * time.Millisecond)
		found, err := m.Lookup(t.Context(), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Len(t, found[0].Routes, 1)
		require.EqualValues(t, "phone", found[0].Routes[0].Device)
	})
}

func TestSilentGatewayHoldsUpNobody(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		g1.login(t, "alice", "phone", "app")
		g2.login(t, "bob", "phone", "app")
		g1.set(func(g *gateway) { g.silent = true })
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice", "bob"})
			require.NoError(t, err)
			require.Equal(t, []string{"alice online false gw-1:unknown", "bob online true gw-2:written"}, results(p))
			require.Equal(t, 2*time.Second, time.Since(begun))
		})
		time.Sleep(time.Millisecond)
		_, err := m.Push(t.Context(), message("m2"), []schema.UID{"bob"})
		require.NoError(t, err)
		require.Less(t, time.Since(begun), 10*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		p, err := m.Push(ctx, message("m3"), []schema.UID{"alice", "bob"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice online false gw-1:unknown", "bob online true gw-2:written"}, results(p), "what is known when its context ends")
		wg.Wait()
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"m1>alice#1"}, g1.pushed(), "what nobody waits for is not sent")
		require.Equal(t, schema.Online, state(t, m, "alice"), "silence proves nothing")
	})
}

func TestGoneGateway(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		// Killed: the server drops its subscriptions; its key lives for a lease.
		g.link.Cut()
		g.link.Reset()
		p, err := m.Push(t.Context(), message("m1"), []schema.UID{"alice"})
		require.NoError(t, err)
		require.Equal(t, []string{"alice online false gw-1:owner_gone"}, results(p))
		kicked, err := m.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
		require.NoError(t, err)
		require.Equal(t, schema.KickOwnerGone, kicked[0].Result)
	})
}

// What comes while a message is on its way to a gateway goes out together in the next, in order.
func TestPushesToOneGatewayGoTogether(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		for i := range 50 {
			g.login(t, schema.UID(fmt.Sprint("u", i)), "phone", "app")
		}
		m.link.Delay(string(subjects.Prefix("").Push(g.me)), 1, 100*time.Millisecond)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				p, err := m.Push(t.Context(), message(fmt.Sprint("m", i)), []schema.UID{schema.UID(fmt.Sprint("u", i))})
				require.NoError(t, err)
				require.True(t, p.Users[0].Reached)
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, []int{1, 49}, g.msgs)
		for i, got := range g.pushed() {
			require.True(t, strings.HasPrefix(got, fmt.Sprintf("m%d>u%d#", i, i)), "%d: %s", i, got)
		}
	})
}

func TestLargePushes(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		var uids []schema.UID
		for i := range 1300 {
			uids = append(uids, schema.UID(fmt.Sprint("u", i)))
			g.login(t, uids[i], "phone", "app")
		}
		p, err := m.Push(t.Context(), message("m1"), uids)
		require.NoError(t, err)
		for i, u := range p.Users {
			require.Equal(t, uids[i], u.UID)
			require.True(t, u.Reached)
		}
		require.Equal(t, []int{512, 512, 276}, g.msgs)
		big := message("m2")
		big.Payload = json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
		_, err = m.Push(t.Context(), big, uids[:3])
		require.NoError(t, err)
		big.Payload = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
		_, err = m.Push(t.Context(), big, uids[:3])
		require.ErrorIs(t, err, delivery.ErrTooLarge)
	})
}
