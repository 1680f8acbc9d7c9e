package gateway

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// revoke brings a revocation to the gateway, as NATS does, and lets it work.
func (st *stage) revoke(r schema.Revoke) {
	st.t.Helper()
	r.Close, r.Why = schema.CloseRemoved, "token revoked"
	body, err := schema.Marshal(&r)
	require.NoError(st.t, err)
	st.publish(subjects.Prefix("").Revoke(), body)
	synctest.Wait()
}

func TestRevokedMeans(t *testing.T) {
	id := phone(time.Time{}, nil)
	for k, want := range map[revokedKey]bool{
		{"alice", "", ""}:         true,
		{"alice", "phone", ""}:    true,
		{"alice", "", "t1"}:       true,
		{"alice", "phone", "t1"}:  true,
		{"alice", "tablet", "t1"}: false,
		{"alice", "tablet", ""}:   false,
		{"alice", "phone", "t2"}:  false,
		{"bob", "", ""}:           false,
		{"bob", "phone", "t1"}:    false,
	} {
		require.Equal(t, want, k.means(&id), "%+v", k)
		var r revocations
		require.True(t, r.remember(k, ending{code: schema.CloseRemoved}, 1))
		_, met := r.meets(&id, revokedFor)
		require.Equal(t, want, met, "%+v", k)
		_, met = r.meets(&id, revokedFor+1)
		require.False(t, met, "it is forgotten")
	}
}

func TestRevocationsAreBounded(t *testing.T) {
	var r revocations
	for n := range revokedMost {
		require.True(t, r.remember(revokedKey{uid: schema.UID(fmt.Sprint(n))}, ending{}, time.Second))
	}
	require.False(t, r.remember(revokedKey{uid: "one more"}, ending{}, 2*time.Second))
	require.True(t, r.remember(revokedKey{uid: "7"}, ending{}, 2*time.Second), "a repeated one takes no room")
	require.True(t, r.remember(revokedKey{uid: "one more"}, ending{}, 11*time.Second))
	require.Len(t, r.by, 2, "the others are over")
}

// TestRevoke ends what is active, what is being logged in, in whatever step, and what comes soon
// after; nothing else.
func TestRevoke(t *testing.T) {
	l := new(logins)
	perform(t, func(c *Config) { c.Auth = l }, func(t *testing.T, st *stage) {
		l.known = map[string]Identity{
			"t1": phone(time.Time{}, nil), "t2": phone(time.Time{}, func(id *Identity) { id.TokenID, id.Device = "t2", "tablet" }),
			"bob": {UID: "bob", Device: "phone", Flag: "app", TokenID: "t1"},
		}
		in, other, bob := st.hello("t1", "phone"), st.hello("t2", "tablet"), st.hello("bob", "phone")
		block := make(chan struct{})
		st.with(func(m *fakeMesh) {
			m.onRegister = func(schema.Target, schema.Login) (schema.LoginResult, error) {
				<-block
				return schema.LoginResult{}, nil
			}
		})
		begin := func(token string) *device {
			d := st.dial(schema.JSON)
			d.send(schema.ClientFrame{Type: schema.TypeHello, ID: "h", Token: token, Device: "phone"})
			synctest.Wait()
			return d
		}
		pending := begin("t1")
		l.with(func() { l.slow = 3 * time.Second })
		judged := begin("t1")
		st.revoke(schema.Revoke{UID: "alice", TokenID: "t1"})
		close(block)
		for _, d := range []*device{in, pending} {
			require.Equal(t, schema.CloseRemoved, d.code())
		}
		f := judged.next(schema.TypeError)
		require.Equal(t, "h", f.ID)
		require.Equal(t, schema.CloseRemoved, f.Close)
		require.Equal(t, "token revoked", f.Message)
		require.Equal(t, schema.CloseRemoved, judged.code())
		l.with(func() { l.slow = 0 })
		require.Equal(t, schema.CloseRemoved, begin("t1").code(), "right after")
		require.Equal(t, 2.0, st.metric("logins_total", outcomeRevoked))

		other.refresh("r", "t2")
		other.next(schema.TypeRefreshed)
		l.with(func() { l.known["t1 of the tablet"] = phone(time.Time{}, func(id *Identity) { id.Device = "tablet" }) })
		other.refresh("r", "t1 of the tablet")
		other.next(schema.TypeRefreshed)
		require.Equal(t, schema.CloseRemoved, other.code(), "a refresh does not bring it back")
		bob.send(schema.ClientFrame{Type: schema.TypePing})
		bob.next(schema.TypePong)

		pass(revokedFor)
		begin("t1").next(schema.TypeConnected)
	})
}

// TestRevokeAnswers tells all that a revocation has ended, the second time too.
func TestRevokeAnswers(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		l := st.g.life.Load()
		d := st.hello("alice", "phone")
		num := st.sessionOf(d).num
		k := revokedKey{uid: "alice"}
		for range 2 {
			body, err := schema.Marshal(&schema.Revoke{UID: "alice", Close: schema.CloseRemoved})
			require.NoError(t, err)
			st.g.serveRevoke(l, &nats.Msg{Data: body})
			require.Equal(t, []schema.Revoked{{Session: num, Device: "phone", Flag: "app"}}, st.g.revoked.ended(k, nil))
		}
		require.Equal(t, schema.CloseRemoved, d.code())
		st.g.serveRevoke(l, &nats.Msg{Data: []byte("garbage")})
		require.Equal(t, 1.0, st.metric("drops_total", string(dropMalformed)))
	})
}
