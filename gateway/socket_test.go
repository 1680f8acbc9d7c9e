package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestSilence closes a client that does not even answer pings after two heartbeats.
func TestSilence(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		d.silent.Store(true)
		start := time.Now()
		require.Equal(t, schema.CloseHeartbeat, d.code())
		require.Equal(t, time.Minute, time.Since(start))
		synctest.Wait()
		st.with(func(m *fakeMesh) { require.Equal(t, schema.ReasonTimeout, m.leaves[0].Reason) })
	})
}

// TestAnyFrameIsLife has a client that answers no ping, and sends a frame of some kind now and then.
func TestAnyFrameIsLife(t *testing.T) {
	for name, frame := range map[string][]byte{
		"ping frame": raw(true, 9, nil), "pong frame": raw(true, 10, []byte("x")),
		"ping": raw(true, 1, []byte(`{"type":"ping"}`)), "ack": raw(true, 1, []byte(`{"type":"ack"}`)),
		"unknown": raw(true, 1, []byte(`{"type":"x"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				d := st.hello("alice", "d1")
				d.silent.Store(true)
				for range 20 {
					time.Sleep(59 * time.Second)
					_, err := d.raw.Write(frame)
					require.NoError(t, err)
				}
				require.Equal(t, 1, st.g.registry.len())
				start := time.Now()
				require.Equal(t, schema.CloseHeartbeat, d.code())
				require.Equal(t, time.Minute, time.Since(start))
			})
		})
	}
}

// TestSlowReader has one client of many that does not read: it alone is put out, and only its
// messages are not taken.
func TestSlowReader(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.QueueFrames = 10 }, func(t *testing.T, st *stage) {
		slow, quick := st.hello("alice", "slow"), st.hello("alice", "quick")
		slow.muted.Store(true)
		start := time.Now()
		counts := map[schema.PushResult]int{}
		for i := range 30 {
			counts[st.push(slow, "alice", fmt.Sprint(i), false)]++
			require.Equal(t, schema.PushWritten, st.push(quick, "alice", fmt.Sprint(i), false))
			require.Equal(t, fmt.Sprint(i), quick.next(schema.TypeRecv).ID)
			synctest.Wait()
		}
		require.Zero(t, time.Since(start), "nobody waits for the slow one")
		require.Greater(t, counts[schema.PushQueueFull], 10)
		require.GreaterOrEqual(t, counts[schema.PushWritten], 10)
		pass(10*time.Second + 2*closeWait)
		require.Equal(t, 1.0, st.metric("closes_total", "3004"))
		require.Equal(t, 1, st.g.registry.len())
		st.with(func(m *fakeMesh) { require.Equal(t, schema.ReasonSlow, m.leaves[0].Reason) })
	})
}

// TestOwedFrames closes a client for whom an answer finds no room: it is not dropped in silence.
func TestOwedFrames(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.QueueFrames = 3 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "slow")
		d.muted.Store(true)
		for range 10 {
			d.send(schema.ClientFrame{Type: schema.TypePing})
		}
		synctest.Wait()
		require.Zero(t, st.g.registry.len())
		require.Equal(t, 1.0, st.metric("closes_total", "3004"))
	})
}

// TestOneWrite puts what waits for a socket into one write.
func TestOneWrite(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		s, l := st.sessionOf(d), st.g.life.Load()
		synctest.Wait()
		before := d.reads.Load()
		msg := &message{push: &schema.PushFrame{ID: "m", Payload: []byte("1")}}
		frame, ok := msg.encoded(s.enc)
		require.True(t, ok)
		for range 5 {
			require.Equal(t, schema.PushWritten, s.push(l, 1, msg, frame))
		}
		s.poke()
		for range 5 {
			d.next(schema.TypeRecv)
		}
		require.Equal(t, before+1, d.reads.Load())
	})
}

// TestKickDoesNotWait answers a kick at once, though its session's socket is stuck.
func TestKickDoesNotWait(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "slow")
		d.muted.Store(true)
		st.push(d, "alice", "m1", false)
		synctest.Wait()
		start := time.Now()
		_, num, _ := d.session.Parse()
		require.Equal(t, schema.CodeStale, st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 99, Close: schema.CloseKicked}))
		require.Equal(t, schema.CodeUnknown, st.g.kicked(schema.KickEntry{UID: "bob", Session: num, Fence: 100, Close: schema.CloseKicked}))
		require.Equal(t, schema.CodeOK, st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 100, Close: schema.CloseKicked}))
		require.Zero(t, time.Since(start))
		require.Nil(t, st.g.registry.find(num))
		require.Equal(t, schema.PushNoSession, st.push(d, "alice", "m2", false))
		require.Equal(t, schema.CodeUnknown, st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 100, Close: schema.CloseKicked}))
		require.Equal(t, schema.CodeStale, func() schema.Code {
			st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 105, Close: schema.CloseKicked})
			return st.g.kicked(schema.KickEntry{UID: "alice", Session: num, Fence: 104, Close: schema.CloseKicked})
		}(), "a kick tells of its fence")
		pass(time.Minute)
	})
}

// authenticator answers as the test says.
type authenticator func(ctx context.Context, c Credentials) (Identity, error)

func (a authenticator) Authenticate(ctx context.Context, c Credentials) (Identity, error) {
	return a(ctx, c)
}

func TestTokens(t *testing.T) {
	var identity Identity
	var failure error
	slow := time.Duration(0)
	auth := authenticator(func(ctx context.Context, c Credentials) (Identity, error) {
		if lease.Wait(ctx, slow) != nil {
			return Identity{}, ctx.Err()
		}
		return identity, failure
	})
	perform(t, func(c *Config) { c.Auth = auth }, func(t *testing.T, st *stage) {
		for want, c := range map[schema.CloseCode]struct {
			err  error
			hint schema.FrameCode
		}{
			schema.CloseBadToken:     {fmt.Errorf("%w: no", ErrBadToken), schema.FrameNotAllowed},
			schema.CloseTokenExpired: {ErrTokenExpired, schema.FrameNotAllowed},
			schema.CloseNotNow:       {errors.New("keys not fetched"), schema.FrameUnavailable},
		} {
			failure = c.err
			d := st.begin("alice")
			f := d.next(schema.TypeError)
			require.Equal(t, c.hint, f.Code)
			require.Equal(t, want, f.Close)
			require.Equal(t, want == schema.CloseNotNow, f.Retryable)
			require.Equal(t, want, d.code())
		}
		for n, life := range []time.Duration{95 * time.Second, 7 * time.Second} { // three heartbeats, none
			identity, failure = Identity{UID: "alice", Device: "x", Flag: "web", Level: schema.Master, Expires: time.Now().Add(life)}, nil
			d := st.begin("ignored")
			f := d.next(schema.TypeConnected)
			require.Equal(t, schema.DeviceID("x"), f.Device, "what the token says wins")
			require.Equal(t, identity.Expires.Unix(), f.ExpiresAt)
			require.Equal(t, schema.CloseTokenExpired, d.code())
			require.Zero(t, time.Until(identity.Expires))
			synctest.Wait()
			st.with(func(m *fakeMesh) { require.Equal(t, schema.ReasonExpired, m.leaves[n].Reason) })
		}

		slow = time.Hour
		require.Equal(t, schema.CloseNotNow, st.begin("alice").code(), "one deadline for the whole login")
	})
}

// TestKickedWhilePinged kicks sessions at the very moment at which their heartbeat is due: the ping that is
// being written takes none of them its close code, without which the client would come back.
func TestKickedWhilePinged(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		var devices []*device
		for i := range 60 {
			devices = append(devices, st.hello(schema.UID(fmt.Sprint("user ", i)), "d1"))
		}
		time.Sleep(st.g.view.Config().Heartbeat()) // and whatever falls due with it falls due now
		for i, d := range devices {
			_, num, _ := d.session.Parse()
			require.Equal(t, schema.CodeOK, st.g.kicked(schema.KickEntry{UID: schema.UID(fmt.Sprint("user ", i)), Session: num, Fence: 100, Close: schema.CloseReplaced}))
		}
		for _, d := range devices {
			require.Equal(t, schema.CloseReplaced, d.code())
		}
	})
}
