package mesh_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// asks authenticates over a connection that is opened when the mesh stands.
type asks struct {
	mu sync.Mutex
	a  gateway.Authenticator
}

func (a *asks) Authenticate(ctx context.Context, c gateway.Credentials) (gateway.Identity, error) {
	a.mu.Lock()
	inner := a.a
	a.mu.Unlock()
	return inner.Authenticate(ctx, c)
}

func (a *asks) over(nc *nats.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.a = gateway.NewNATSAuth(nc, gateway.NATSAuthConfig{})
}

// judges serves auth.connect from outside: a token is "<uid>" or "<uid>/<what to say>".
func judges(m *mesh.Mesh) *nats.Subscription {
	m.T.Helper()
	sub, err := m.Outsider.QueueSubscribe(subjects.Prefix("").AuthConnect(), "login", func(msg *nats.Msg) {
		var call schema.AuthCall
		if json.Unmarshal(msg.Data, &call) != nil {
			return
		}
		answer := nats.NewMsg(msg.Reply)
		uid, say, _ := strings.Cut(call.Token, "/")
		if code, text, failed := strings.Cut(say, " "); failed {
			answer.Header.Set("Nats-Service-Error-Code", code)
			answer.Header.Set("Nats-Service-Error", text)
		} else {
			answer.Data, _ = json.Marshal(schema.AuthReply{
				UID: schema.UID(uid), Device: call.Device, Flag: "web", TokenID: say, ExpiresAt: time.Now().Add(time.Hour).Unix(),
			})
		}
		m.Outsider.PublishMsg(answer)
	})
	require.NoError(m.T, err)
	require.NoError(m.T, m.Outsider.Flush())
	return sub
}

// TestABackendAuthenticates: what the backend says becomes the session's; whatever hinders it from
// saying anything turns clients away for a moment, in time, and no session that is in.
func TestABackendAuthenticates(t *testing.T) {
	auth := new(asks)
	mesh.Run(t, mesh.Options{Gateways: 1, Gateway: func(c *gateway.Config) { c.Auth = auth }}, func(t *testing.T, m *mesh.Mesh) {
		g := m.Gateways[0]
		nc, link := m.Server.Dial("gateway/gw-1/auth")
		auth.over(nc)
		later := func(within time.Duration) {
			t.Helper()
			start := time.Now()
			s := g.Hello("alice")
			e := s.Next(0, schema.TypeError, "")
			require.Equal(t, schema.FrameUnavailable, e.Code)
			require.Positive(t, e.RetryAfterMS)
			require.Equal(t, schema.CloseNotNow, s.Ended().Code)
			require.Less(t, time.Since(start), within)
		}
		later(100 * time.Millisecond) // nobody answers

		sub := judges(m)
		in := g.Enter("alice", mesh.As("phone", "app", schema.Master))
		f := in.Next(0, schema.TypeConnected, "")
		require.EqualValues(t, "alice", f.UID)
		require.EqualValues(t, "web", f.Flag, "what the backend says wins")
		require.Equal(t, "master", f.Level, "what it leaves open is the client's")
		require.InDelta(t, time.Now().Add(time.Hour).Unix(), f.ExpiresAt, 2)
		for token, want := range map[schema.UID]schema.CloseCode{
			"alice/401 no":      schema.CloseBadToken,
			"alice/403 banned":  schema.CloseBadToken,
			"alice/401 expired": schema.CloseTokenExpired,
			"alice/500 down":    schema.CloseNotNow,
			"":                  schema.CloseNotNow, // the backend gives no uid
		} {
			s := g.Hello(token)
			e := s.Next(0, schema.TypeError, "")
			require.Equal(t, want, e.Close, token)
			require.Equal(t, want, s.Ended().Code, token)
		}

		link.Cut()
		later(4 * time.Second)
		link.Reset()
		later(4 * time.Second)
		link.Heal()
		m.Pass(2 * time.Second)
		g.Enter("bob")
		require.NoError(t, sub.Unsubscribe())
		require.NoError(t, m.Outsider.Flush())
		later(100 * time.Millisecond)
		require.True(t, in.Open())
	})
}

// TestClientsRefreshInTime: with new tokens one session lives on, under a backend that gives
// each token an hour; without, it ends with the first.
func TestClientsRefreshInTime(t *testing.T) {
	auth := new(asks)
	mesh.Run(t, mesh.Options{Gateways: 1, Gateway: func(c *gateway.Config) { c.Auth = auth }}, func(t *testing.T, m *mesh.Mesh) {
		nc, _ := m.Server.Dial("gateway/gw-1/auth")
		auth.over(nc)
		judges(m)
		fresh := m.Gateways[0].Login("alice", "phone", func(c *client.Config) { c.RefreshBefore = 10 * time.Minute })
		stale := m.Gateways[0].Login("bob", "phone")
		first, _ := fresh.Current()
		m.Pass(150 * time.Minute)
		now, ok := fresh.Current()
		require.True(t, ok)
		require.Equal(t, first, now)
		require.Empty(t, fresh.Ends())
		require.Len(t, stale.Ends(), 2)
		for _, end := range stale.Ends() {
			require.Equal(t, schema.CloseTokenExpired, end.Code)
		}
	})
}
