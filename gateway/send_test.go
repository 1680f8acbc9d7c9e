package gateway

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func (b *fakeBus) backend(f func(subject string, up schema.Up) (*nats.Msg, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onSend = func(subject string, data []byte) (*nats.Msg, error) {
		var up schema.Up
		if err := json.Unmarshal(data, &up); err != nil {
			return nil, err
		}
		return f(subject, up)
	}
}

func TestSend(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("a.b", "d1")
		send := func(id string) {
			d.send(schema.ClientFrame{Type: schema.TypeSend, ID: id, Payload: []byte(`{"text":"hi"}`)})
		}
		send("1")
		f := d.next(schema.TypeError)
		require.Equal(t, schema.FrameNoBackend, f.Code)
		require.Equal(t, "1", f.ID)
		require.True(t, f.Retryable)

		var got schema.Up
		var subject string
		st.backend(func(s string, up schema.Up) (*nats.Msg, error) {
			subject, got = s, up
			return &nats.Msg{Data: []byte(`{"ok":true}`)}, nil
		})
		send("2")
		f = d.next(schema.TypeSent)
		require.Equal(t, "2", f.ID)
		require.JSONEq(t, `{"ok":true}`, string(f.Reply))
		me := st.me()
		require.Equal(t, schema.Up{ID: "2", UID: "a.b", Node: me.Node, Boot: me.Boot, Session: d.session, Device: "d1", Flag: "app", Payload: []byte(`{"text":"hi"}`)}, got)
		require.Equal(t, st.g.config.Prefix.Up("a.b"), subject)

		for name, c := range map[string]struct {
			msg  *nats.Msg
			err  error
			want schema.FrameCode
			text string
		}{
			"micro error": {msg: &nats.Msg{Header: nats.Header{micro.ErrorHeader: {"bob is busy"}, micro.ErrorCodeHeader: {"409"}}}, want: schema.FrameBackendError, text: "bob is busy"},
			"only a code": {msg: &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {"500"}}}, want: schema.FrameBackendError, text: "error 500"},
			"long error":  {msg: &nats.Msg{Header: nats.Header{micro.ErrorHeader: {"\xff" + strings.Repeat("\x7f", 1<<20)}}}, want: schema.FrameBackendError, text: "?" + strings.Repeat("\x7f", 1023)},
			"no JSON":     {msg: &nats.Msg{Data: []byte("ok")}, want: schema.FrameBackendError, text: "backend's answer is no JSON value"},
			"much":        {msg: &nats.Msg{Data: []byte(`"` + strings.Repeat("x", 512<<10) + `"`)}, want: schema.FrameBackendError, text: "backend's answer has 524290 bytes: 524288 are taken"},
			"too large":   {err: nats.ErrMaxPayload, want: schema.FrameTooLarge, text: "payload is too large for the backend"},
			"no NATS":     {err: nats.ErrConnectionReconnecting, want: schema.FrameUnavailable, text: "backend cannot be reached"},
			"no answer":   {want: schema.FrameTimeout, text: "backend did not answer in time"},
		} {
			st.backend(func(string, schema.Up) (*nats.Msg, error) { return c.msg, c.err })
			send(name)
			f = d.next(schema.TypeError)
			require.Equal(t, c.want, f.Code)
			require.Equal(t, c.text, f.Message)
		}
		st.backend(func(string, schema.Up) (*nats.Msg, error) { return &nats.Msg{}, nil })
		send("empty")
		require.Empty(t, d.next(schema.TypeSent).Reply)
		for outcome, n := range map[string]float64{"ok": 2, "no_backend": 1, "backend_error": 5, "too_large": 1, "unavailable": 1, "timeout": 1} {
			require.Equal(t, n, st.metric("sends_total", outcome), outcome)
		}
	})
}

// TestAnswerGrowsInMsgpack: each -0 takes nine bytes there.
func TestAnswerGrowsInMsgpack(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		answer := func(n int) []byte { return []byte("[" + strings.Repeat("-0,", n) + "0]") }
		for enc, most := range map[schema.Encoding]int{schema.JSON: 170_000, schema.Msgpack: 116_000} {
			d := st.dial(enc)
			d.send(schema.ClientFrame{Type: schema.TypeHello, Token: "alice"})
			d.next(schema.TypeConnected)
			d.ws.SetReadLimit(1 << 20)
			for _, n := range []int{most, 170_000} {
				st.backend(func(string, schema.Up) (*nats.Msg, error) { return &nats.Msg{Data: answer(n)}, nil })
				d.send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")})
				if n == most {
					require.Len(t, d.next(schema.TypeSent).Reply, len(answer(n)))
					continue
				}
				f := d.next(schema.TypeError)
				require.Equal(t, schema.FrameBackendError, f.Code)
				require.Contains(t, f.Message, "as msgpack: a client takes 1048576")
			}
		}
	})
}

func TestSendsInFlight(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.SendsInFlight = 2 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		release := make(chan struct{})
		st.backend(func(string, schema.Up) (*nats.Msg, error) {
			<-release
			return &nats.Msg{}, nil
		})
		for _, id := range []string{"1", "2", "3"} {
			d.send(schema.ClientFrame{Type: schema.TypeSend, ID: id, Payload: []byte("1")})
		}
		f := d.next(schema.TypeError)
		require.Equal(t, schema.FrameInFlight, f.Code)
		require.Equal(t, "3", f.ID)
		d.send(schema.ClientFrame{Type: schema.TypePing, ID: "p"})
		d.next(schema.TypePong)
		close(release)
		d.next(schema.TypeSent)
		d.next(schema.TypeSent)
	})
}

// TestSendsOneAfterTheOther: who has the answer to its last send may send the next, at once.
func TestSendsOneAfterTheOther(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.SendsInFlight, c.Limits.Burst = 1, 1<<20 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		st.backend(func(string, schema.Up) (*nats.Msg, error) { return &nats.Msg{}, nil })
		for range 2000 {
			d.send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")})
			d.next(schema.TypeSent)
		}
	})
}

// TestSendAfterAWatch: a watch that is answered is not under way any more, though who is watched has yet
// to be looked up.
func TestSendAfterAWatch(t *testing.T) {
	perform(t, func(c *Config) { c.Limits.SendsInFlight = 1 }, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		looked := make(chan struct{})
		release := sync.OnceFunc(func() { close(looked) })
		defer release()
		st.with(func(m *fakeMesh) {
			m.onLookup = func(uids []schema.UID) []client.Found {
				<-looked
				return []client.Found{{UID: uids[0], State: schema.Offline, Stamp: stamp(100, 0)}}
			}
		})
		st.backend(func(string, schema.Up) (*nats.Msg, error) { return &nats.Msg{}, nil })
		d.send(schema.ClientFrame{Type: schema.TypeWatch, UIDs: []schema.UID{"bob"}})
		d.next(schema.TypeOK)
		synctest.Wait()
		d.send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")})
		d.next(schema.TypeSent)
		release()
		d.next(schema.TypePresence)
	})
}

// TestLeavesWhileSending ends a session whose send has no answer yet: nothing of it is left.
func TestLeavesWhileSending(t *testing.T) {
	perform(t, nil, func(t *testing.T, st *stage) {
		d := st.hello("alice", "d1")
		st.backend(func(string, schema.Up) (*nats.Msg, error) { return nil, nil })
		d.send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")})
		start := time.Now()
		d.ws.CloseNow()
		synctest.Wait()
		st.g.door.mu.Lock()
		defer st.g.door.mu.Unlock()
		require.Empty(t, st.g.door.all)
		require.Zero(t, time.Since(start))
	})
}

// TestLargeAnswersTogether: as many large answers as may be under way come to a client at once. Who reads has
// them all; who does not is closed when the first write has taken too long, and nothing of it is left.
func TestLargeAnswersTogether(t *testing.T) {
	for name, reads := range map[string]bool{"reads": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			perform(t, nil, func(t *testing.T, st *stage) {
				const sends = 16
				d := st.hello("alice", "d1")
				d.ws.SetReadLimit(1 << 20)
				release := make(chan struct{})
				answer := []byte(`"` + strings.Repeat("x", 500_000) + `"`)
				st.backend(func(string, schema.Up) (*nats.Msg, error) {
					<-release
					return &nats.Msg{Data: answer}, nil
				})
				for range sends {
					d.send(schema.ClientFrame{Type: schema.TypeSend, Payload: []byte("1")})
				}
				synctest.Wait()
				d.muted.Store(!reads)
				close(release)
				if reads {
					for range sends {
						require.Len(t, d.next(schema.TypeSent).Reply, len(answer))
					}
					return
				}
				time.Sleep(st.g.config.Limits.WriteTimeout - time.Millisecond)
				synctest.Wait()
				require.Equal(t, 1, st.g.registry.len())
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				require.Zero(t, st.g.registry.len())
				require.Equal(t, 1.0, st.metric("closes_total", "3004"))
				st.g.door.mu.Lock()
				defer st.g.door.mu.Unlock()
				require.Empty(t, st.g.door.all)
			})
		})
	}
}
