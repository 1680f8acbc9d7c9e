package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestASilentAuthorityCostsOthersNoMessage: whoever pushes with little time reaches all whose authority
// answers, in that time; the others are named as unknown.
func TestASilentAuthorityCostsOthersNoMessage(t *testing.T) {
	for name, c := range map[string]struct {
		within  time.Duration // of the caller
		options []delivery.CallOption
		takes   time.Duration
	}{
		"less than a look-up may take":     {200 * time.Millisecond, nil, 200 * time.Millisecond},
		"more":                             {5 * time.Second, nil, 600 * time.Millisecond},
		"it would wait longer than it can": {3 * time.Second, []delivery.CallOption{delivery.AwaitFresh(10 * time.Second)}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
				users, sockets := phones(m.Gateways[0], 40)
				silent := map[schema.UID]bool{}
				for _, uid := range users {
					silent[uid] = m.Find(uid).Target.Authority == m.Authorities[0].Me()
				}
				m.Authorities[0].Cut()
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				defer cancel()
				begun := time.Now()
				p, err := m.Push(ctx, delivery.Message{ID: "m1", Payload: json.RawMessage(`1`)}, users, c.options...)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(begun), c.takes)
				m.Pass(time.Second)
				for _, u := range p.Users {
					require.Equal(t, !silent[u.UID], u.Reached, "%s is %s", u.UID, u.State)
					require.Equal(t, silent[u.UID], u.State == schema.Unknown)
					require.Equal(t, silent[u.UID], u.Why == client.WhyUnreachable)
					require.Equal(t, u.Reached, sockets[u.UID].Got("m1") == 1)
				}
			})
		})
	}
}

// TestAckWaitBeyondTheCallersTime: what devices have acknowledged by the end of the caller's time is told,
// whatever others owe, on their gateway and on another one.
func TestAckWaitBeyondTheCallersTime(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		one.Enter("never")
		slow := one.Enter("slow")
		one.Login("beside", "phone")
		two.Login("elsewhere", "phone")
		go func() {
			m.Pass(500 * time.Millisecond)
			acks(slow, "m1")
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		p, err := m.Push(ctx, delivery.Message{ID: "m1", Payload: json.RawMessage(`1`)}, []schema.UID{"never", "slow", "beside", "elsewhere"}, delivery.AckWait(5*time.Second))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begun), time.Second)
		require.Equal(t, []string{"never true written", "slow true acked", "beside true acked", "elsewhere true acked"}, pushed{Pushed: p}.lines())
	})
}

// TestASilentGatewayHidesNoAcknowledgement: one gateway says nothing until the caller's time is over; what
// the devices of the others have acknowledged is told all the same.
func TestASilentGatewayHidesNoAcknowledgement(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		one.Enter("silent")
		two.Login("alice", "phone")
		one.Cut()
		for i := range 10 { // chance has no part in it
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			p, err := m.Push(ctx, delivery.Message{Payload: json.RawMessage(`1`)}, []schema.UID{"silent", "alice"}, delivery.AckWait(500*time.Millisecond))
			cancel()
			require.NoError(t, err)
			require.Equal(t, []string{"silent false unknown", "alice true acked"}, pushed{Pushed: p}.lines(), "try %d", i)
			m.Pass(2 * time.Second)
		}
	})
}

// TestAwaitRidesOutARebuild: a push that waits reaches all who are there, once, as soon as they are known,
// and nobody is called offline meanwhile. One that waits less says who is
// unknown when its wait is over.
func TestAwaitRidesOutARebuild(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2}, func(t *testing.T, m *mesh.Mesh) {
		m.Pass(leaseTime)
		users, sockets := phones(m.Gateways[0], 40)
		nobody := schema.UID("nobody")
		for i := 0; m.Find(nobody).Target.Authority != m.Authorities[0].Me(); i++ {
			nobody = schema.UID(fmt.Sprint("nobody-", i))
		}
		m.Authorities[0].Kill() // takeover waits for its lease: no disconnect events here
		short := pushIn(m, "short", append(users, nobody), delivery.AwaitFresh(2*time.Second))
		require.InDelta(t, 2, short.took.Seconds(), 0.6)
		m.Still()
		lost := 0
		for _, u := range short.Users {
			require.NotEqual(t, schema.Offline, u.State, u.UID)
			require.Equal(t, u.State == schema.Online, u.Reached)
			require.Equal(t, u.Reached, u.UID != nobody && sockets[u.UID].Got("short") == 1, u.UID)
			if u.State == schema.Unknown {
				lost++
			}
		}
		require.NotZero(t, lost)
		require.Less(t, lost, len(users))

		m.Pass(leaseTime - 10*time.Second)
		long := pushIn(m, "long", append(users, nobody), delivery.AwaitFresh(30*time.Second))
		require.Less(t, long.took, 15*time.Second, "it does not wait longer than it has to")
		for i, line := range long.lines() {
			if i < len(users) {
				require.Equal(t, string(users[i])+" true written", line)
			}
		}
		require.Equal(t, schema.Offline, long.Users[len(users)].State)
		m.Still()
		for uid, s := range sockets {
			require.Equal(t, 1, s.Got("long"), uid)
		}
	})
}
