package mesh_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestPushAtCommit pushes to 10,000 users, each at the very moment at which the authority has
// committed its login: half of them before their gateway has heard of it, since its answers are
// late. Every message is written and comes once, and no route is removed for it.
func TestPushAtCommit(t *testing.T) {
	const users = 10_000 / share
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		var removes atomic.Int64
		_, err := m.Outsider.Subscribe("slot.*.*.remove", func(*nats.Msg) { removes.Add(1) })
		require.NoError(t, err)
		p := &pusher{m: m, told: make(map[schema.UID]delivery.PushedUser)}
		m.Follow(p.greet)
		m.Gateways[1].Control.DelayIn("_INBOX.>", -1, 5*time.Millisecond)
		for first := 0; first < users; first += 500 {
			p.enter(first, min(first+500, users))
		}
		p.pushing.Wait()
		require.Len(t, p.told, users)
		for uid, told := range p.told {
			require.Equal(t, []schema.PushResult{schema.PushWritten}, mesh.Results(told), uid)
		}
		require.Zero(t, removes.Load(), "routes removed")
		require.Greater(t, retries(t, m), float64(users)/4, "messages that came before the login's own answer")
	})
}

// pusher pushes to each user that comes online, at once.
type pusher struct {
	m       *mesh.Mesh
	pushing sync.WaitGroup

	mu   sync.Mutex
	told map[schema.UID]delivery.PushedUser
}

func (p *pusher) greet(e schema.Event) {
	if e.Type != schema.EventOnline {
		return
	}
	p.pushing.Go(func() {
		told, err := p.m.Push(context.Background(), delivery.Message{ID: "welcome", Payload: []byte(`"hi"`)}, []schema.UID{e.UID})
		if err != nil {
			panic(err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.told[e.UID] = told.Users[0]
	})
}

// enter lets users come in side by side and checks that each is welcomed once.
func (p *pusher) enter(first, end int) {
	var sockets []*mesh.Socket
	for i := first; i < end; i++ {
		sockets = append(sockets, p.m.Gateways[i%2].Hello(schema.UID(fmt.Sprintf("user-%d", i))))
	}
	p.m.Pass(time.Second)
	for _, s := range sockets {
		require.True(p.m.T, s.Open())
		require.Equal(p.m.T, 1, s.Got("welcome"), s.User())
		s.Forget()
	}
}

// retries gives how many routes delivery has tried again since their login was under way.
func retries(t *testing.T, m *mesh.Mesh) (n float64) {
	t.Helper()
	all, err := m.Metrics.Gather()
	require.NoError(t, err)
	for _, family := range all {
		if family.GetName() == "rollcall_delivery_push_retries_total" {
			n += family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return n
}
