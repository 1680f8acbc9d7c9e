package gateway

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func asksPolicy(c *Config) { c.WatchPolicy = true }

// policy is the backend that tells whom clients may watch.
func (b *fakeBus) policy(f func(schema.WatchCall) (*nats.Msg, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onSend = func(_ string, data []byte) (*nats.Msg, error) {
		var call schema.WatchCall
		if err := json.Unmarshal(data, &call); err != nil {
			return nil, err
		}
		return f(call)
	}
}

func allowing(uids ...schema.UID) func(schema.WatchCall) (*nats.Msg, error) {
	return func(schema.WatchCall) (*nats.Msg, error) {
		data, err := json.Marshal(schema.WatchReply{Allowed: append([]schema.UID{}, uids...)})
		return &nats.Msg{Data: data}, err
	}
}

func TestWatchPolicy(t *testing.T) {
	perform(t, asksPolicy, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		ask := func(uids ...schema.UID) schema.ServerFrame {
			t.Helper()
			d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "x", UIDs: uids})
			f := d.next(schema.TypeError)
			require.Equal(t, "x", f.ID)
			st.nobodyWatches()
			return f
		}
		f := ask("bob")
		require.Equal(t, schema.FrameUnavailable, f.Code, "nobody answers")
		require.True(t, f.Retryable)
		require.Positive(t, f.RetryAfterMS)

		for name, c := range map[string]struct {
			msg  *nats.Msg
			err  error
			want schema.FrameCode
		}{
			"micro error":   {msg: &nats.Msg{Header: nats.Header{micro.ErrorHeader: {"database away"}}}, want: schema.FrameUnavailable},
			"no JSON":       {msg: &nats.Msg{Data: []byte("yes")}, want: schema.FrameUnavailable},
			"no such field": {msg: &nats.Msg{Data: []byte(`{"allow":["bob"]}`)}, want: schema.FrameUnavailable},
			"empty":         {msg: &nats.Msg{}, want: schema.FrameUnavailable},
			"no NATS":       {err: nats.ErrConnectionReconnecting, want: schema.FrameUnavailable},
			"no answer":     {want: schema.FrameTimeout},
		} {
			start := time.Now()
			st.policy(func(schema.WatchCall) (*nats.Msg, error) { return c.msg, c.err })
			f := ask("bob")
			require.Equal(t, c.want, f.Code, name)
			require.True(t, f.Retryable, name)
			require.LessOrEqual(t, time.Since(start), st.g.config.Limits.SendTimeout)
		}

		st.policy(allowing("bob"))
		f = ask("bob", "eve", "mallory")
		require.Equal(t, schema.FrameNotAllowed, f.Code)
		require.False(t, f.Retryable)
		require.Equal(t, []schema.UID{"eve", "mallory"}, f.UIDs)
		st.policy(allowing())
		require.Equal(t, schema.FrameNotAllowed, ask("bob").Code)
	})
}

// The policy is asked about those whom the token does not list, each once, by the subject that
// permissions allow.
func TestWatchPolicyIsAskedAboutOthers(t *testing.T) {
	auth := lists{"alice": {"bob"}}
	perform(t, func(c *Config) { c.Auth, c.WatchPolicy = auth, true }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		require.Len(t, d.watch("alice", "bob"), 2, "nothing to ask")
		var calls []schema.WatchCall
		st.policy(func(c schema.WatchCall) (*nats.Msg, error) {
			calls = append(calls, c)
			return allowing(c.Watch...)(c)
		})
		require.Len(t, d.watch("alice", "carol", "bob", "dan", "carol"), 4)
		require.Equal(t, []schema.WatchCall{{UID: "alice", Device: "d1", Flag: "app", Watch: []schema.UID{"carol", "dan"}}}, calls)
		asked := st.asked()
		require.Equal(t, st.g.config.Prefix.AuthWatch(), asked[len(asked)-1])
		require.Equal(t, 1.0, st.metric("watch_policy_total", policyAllowed))
	})
}

// A watch that waits for the policy holds up the unwatch after it, not the other frames.
func TestWatchInTurn(t *testing.T) {
	perform(t, asksPolicy, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		release := make(chan struct{})
		st.policy(func(c schema.WatchCall) (*nats.Msg, error) {
			<-release
			return allowing(c.Watch...)(c)
		})
		d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "1", UIDs: []schema.UID{"bob"}})
		d.send(schema.ClientFrame{Type: schema.TypeUnwatch, ID: "2", UIDs: []schema.UID{"bob"}})
		d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "3", UIDs: []schema.UID{"carol"}})
		d.send(schema.ClientFrame{Type: schema.TypePing, ID: "4"})
		require.Equal(t, "4", d.next(schema.TypePong).ID)
		close(release)
		require.Equal(t, "1", d.next(schema.TypeOK).ID)
		require.Len(t, d.next(schema.TypePresence).Users, 1)
		require.Equal(t, "2", d.next(schema.TypeOK).ID)
		require.Equal(t, "3", d.next(schema.TypeOK).ID)
		require.Equal(t, schema.UID("carol"), d.next(schema.TypePresence).Users[0].UID)
		users, _, _ := st.g.watches.counts()
		require.Equal(t, 1, users)
	})
}

// A client that leaves while the policy is asked leaves nothing behind, at once.
func TestLeavesWhilePolicyIsAsked(t *testing.T) {
	perform(t, asksPolicy, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		st.policy(func(schema.WatchCall) (*nats.Msg, error) { return nil, nil })
		for range 20 { // more than may be under way
			d.send(schema.ClientFrame{Type: schema.TypeWatch, ID: "w", UIDs: []schema.UID{"bob"}})
		}
		for range 4 {
			require.Equal(t, schema.FrameInFlight, d.next(schema.TypeError).Code)
		}
		start := time.Now()
		d.ws.CloseNow()
		st.nobodyWatches()
		synctest.Wait()
		require.Zero(t, time.Since(start))
	})
}
