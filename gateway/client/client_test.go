package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestSessionInBothEncodings(t *testing.T) {
	for _, enc := range []schema.Encoding{schema.JSON, schema.Msgpack} {
		bubble(t, func(t *testing.T, w *world) {
			r := w.start(func(c *client.Config) { c.Encoding, c.Resume, c.Name = enc, "before", "test/1" })
			c, hello := w.accept("s1")
			require.Equal(t, enc, c.enc)
			require.Equal(t, schema.ClientFrame{Type: schema.TypeHello, Token: "alice", Device: "phone-1", Flag: "app",
				Level: "master", Resume: "before", Client: "test/1"}, hello)
			require.NoError(t, r.Ready(t.Context()))
			got, ok := r.Session()
			require.True(t, ok)
			require.Equal(t, client.Session{Session: "s1", Gateway: schema.Process{Node: "gw-1", Boot: "AAAAAAAAAAAAAAAAAAAAAA"},
				UID: "alice", Device: "phone-1", Flag: "app", Level: schema.Master, Heartbeat: 30 * time.Second,
				ExpiresAt: time.Unix(1790000000, 0), MaxBytes: 65536}, got)

			c.send(schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: json.RawMessage(`{"n":[1,2.5]}`), Ack: 17})
			require.Equal(t, client.Message{ID: "m1", From: "bob", Payload: json.RawMessage(`{"n":[1,2.5]}`)}, <-r.messages)
			require.Equal(t, []uint64{17}, c.next(schema.TypeAck).Acks)
			c.send(schema.ServerFrame{Type: schema.TypeRecv, ID: "m2", From: "bob", Payload: json.RawMessage(`null`)})
			require.Equal(t, "m2", (<-r.messages).ID)

			users := []schema.WatchedUser{{UID: "bob", State: "online", Stamp: &schema.Stamp{Fence: 3, K: 4}}}
			c.send(schema.ServerFrame{Type: schema.TypePresence, Users: users})
			require.Equal(t, users, <-r.presence)
			r.end(t)
			require.Empty(t, c.frames, "nothing else was sent, no ack for m2")
		})
	}
}

func TestSend(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		_, err := r.Send(t.Context(), []byte(`1`))
		require.ErrorIs(t, err, client.ErrNotConnected)
		c, _ := w.accept("s1")
		require.NoError(t, r.Ready(t.Context()))

		var wg sync.WaitGroup
		for _, n := range []string{`1`, `2`} { // answered in the other order
			wg.Go(func() {
				reply, err := r.Send(t.Context(), []byte(n))
				require.NoError(t, err)
				require.Equal(t, `["`+n+`"]`, string(reply))
			})
		}
		first, second := c.next(schema.TypeSend), c.next(schema.TypeSend)
		for _, f := range []schema.ClientFrame{second, first} {
			c.send(schema.ServerFrame{Type: schema.TypeSent, ID: f.ID, Reply: json.RawMessage(`["` + string(f.Payload) + `"]`)})
		}
		wg.Wait()

		wg.Go(func() {
			_, err := r.Send(t.Context(), []byte(`3`))
			require.ErrorIs(t, err, schema.FrameNoBackend)
			require.EqualError(t, err, "no_backend: nobody there")
			refused, ok := errors.AsType[*client.RefusedError](err)
			require.True(t, ok)
			require.Equal(t, 500*time.Millisecond, refused.RetryAfter)
		})
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: c.next(schema.TypeSend).ID, Code: schema.FrameNoBackend,
			Message: "nobody there", RetryAfterMS: 500})
		wg.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Send(ctx, []byte(`4`))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		late := c.next(schema.TypeSend)
		c.send(schema.ServerFrame{Type: schema.TypeSent, ID: late.ID}) // for nobody any more

		_, err = r.Send(t.Context(), []byte(`"`+strings.Repeat("x", 65536)+`"`))
		require.ErrorIs(t, err, schema.FrameTooLarge)
		_, err = r.Send(t.Context(), []byte(`{`))
		require.ErrorIs(t, err, schema.FrameBadMessage)

		wg.Go(func() {
			_, err := r.Send(t.Context(), []byte(`5`))
			require.ErrorIs(t, err, client.ErrLost)
		})
		c.next(schema.TypeSend)
		c.ws.CloseNow()
		wg.Wait()
		r.end(t)
	})
}

// An answer that came before the connection's end is the answer.
func TestAnswerThenEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		for range 100 {
			c, _ := w.accept("s1")
			require.NoError(t, r.Ready(t.Context()))
			time.AfterFunc(time.Second, func() {
				f := c.next(schema.TypeSend)
				c.send(schema.ServerFrame{Type: schema.TypeSent, ID: f.ID, Reply: json.RawMessage(`1`)})
				c.ws.Close(1012, "restart")
			})
			reply, err := r.Send(t.Context(), []byte(`1`))
			require.NoError(t, err)
			require.Equal(t, "1", string(reply))
		}
		r.end(t)
	})
}

// A message comes once, however often it is sent: in this session, or again in the next.
func TestDedupAndResume(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		c, hello := w.accept("s1")
		require.Empty(t, hello.Resume)
		recv := func(id string, from schema.UID, ack uint64) schema.ServerFrame {
			return schema.ServerFrame{Type: schema.TypeRecv, ID: id, From: from, Payload: json.RawMessage(`1`), Ack: ack}
		}
		c.send(recv("m1", "bob", 1))
		c.send(recv("m1", "bob", 2))
		c.send(recv("m1", "eve", 0))
		require.Equal(t, schema.UID("bob"), (<-r.messages).From)
		require.Equal(t, schema.UID("eve"), (<-r.messages).From)
		acks := c.next(schema.TypeAck).Acks
		if len(acks) == 1 {
			acks = append(acks, c.next(schema.TypeAck).Acks...)
		}
		require.Equal(t, []uint64{1, 2}, acks, "the repeated one is acked too")

		c.ws.Close(1012, "restart")
		c, hello = w.accept("s2")
		require.Equal(t, schema.SessionID("s1"), hello.Resume)
		c.send(recv("m1", "bob", 1))
		c.send(recv("m2", "bob", 0))
		require.Equal(t, "m2", (<-r.messages).ID)
		require.Equal(t, []uint64{1}, c.next(schema.TypeAck).Acks)

		c.send(connected("s3")) // the gateway has a new boot
		c.ws.Close(1012, "restart")
		_, hello = w.accept("s4")
		require.Equal(t, schema.SessionID("s3"), hello.Resume)
		require.Equal(t, 1, r.tokens, "reconnects keep the token")
		r.end(t)
	})
}

func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		require.NoError(t, r.Watch(t.Context(), "bob"), "only noted: there is no session yet")
		c, _ := w.accept("s1")
		require.Equal(t, []schema.UID{"bob"}, c.next(schema.TypeWatch).UIDs)
		require.NoError(t, r.Ready(t.Context()))

		var wg sync.WaitGroup
		answer := func(code schema.FrameCode, want schema.FrameType, call func() error) (err error) {
			wg.Go(func() { err = call() })
			f := c.next(want)
			if code == "" {
				c.send(schema.ServerFrame{Type: schema.TypeOK, ID: f.ID})
			} else {
				c.send(schema.ServerFrame{Type: schema.TypeError, ID: f.ID, Code: code})
			}
			wg.Wait()
			return err
		}
		require.NoError(t, answer("", schema.TypeWatch, func() error { return r.Watch(t.Context(), "carol", "dave") }))
		require.ErrorIs(t, answer(schema.FrameNotAllowed, schema.TypeWatch,
			func() error { return r.Watch(t.Context(), "bob", "eve") }), schema.FrameNotAllowed)
		require.NoError(t, answer("", schema.TypeUnwatch, func() error { return r.Unwatch(t.Context(), "dave") }))

		wg.Go(func() { require.NoError(t, r.Watch(t.Context(), "frank")) })
		c.next(schema.TypeWatch)
		c.ws.Close(1012, "restart") // no answer: the next session has it
		wg.Wait()
		c, _ = w.accept("s2")
		require.Equal(t, []schema.UID{"bob", "carol", "frank"}, c.next(schema.TypeWatch).UIDs, "not eve, not dave")
		r.end(t)
	})
}

// TestRewatch: after a reconnect, what is watched goes out in frames that the gateway takes; what is
// refused for the moment is tried again, and what is refused for good is given up and told.
func TestRewatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var given []schema.UID
		var why error
		r := w.start(func(c *client.Config) {
			c.OnWatchRefused = func(uids []schema.UID, err error) { given, why = append(given, uids...), err }
		})
		var uids []schema.UID
		for i := range 300 {
			uids = append(uids, schema.UID(strings.Repeat("u", 250)+strconv.Itoa(i)))
		}
		require.NoError(t, r.Watch(t.Context(), uids...))
		c, _ := w.accept("s1") // says that it takes frames of 64 KiB
		first, second := c.next(schema.TypeWatch), c.next(schema.TypeWatch)
		require.ElementsMatch(t, uids, append(slices.Clone(first.UIDs), second.UIDs...))
		c.send(schema.ServerFrame{Type: schema.TypeOK, ID: second.ID})
		for n := range 3 {
			c.send(schema.ServerFrame{Type: schema.TypeError, ID: first.ID, Code: schema.FrameUnavailable, Retryable: true, RetryAfterMS: 10})
			begun, before := time.Now(), first.UIDs
			first = c.next(schema.TypeWatch)
			require.Equal(t, time.Second<<n, time.Since(begun), "paced, whatever the gateway says")
			require.Equal(t, before, first.UIDs)
		}
		bad := first.UIDs[2:4]
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: first.ID, Code: schema.FrameNotAllowed, UIDs: bad})
		rest := c.next(schema.TypeWatch)
		require.Len(t, rest.UIDs, len(first.UIDs)-2)
		synctest.Wait()
		require.Equal(t, bad, given)
		require.ErrorIs(t, why, schema.FrameNotAllowed)
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: rest.ID, Code: schema.FrameWatchOff})
		synctest.Wait()
		require.ElementsMatch(t, first.UIDs, given)
		c.ws.Close(1012, "restart")
		c, _ = w.accept("s2")
		require.ElementsMatch(t, second.UIDs, c.next(schema.TypeWatch).UIDs, "what was given up is not watched again")
		r.end(t)
	})
}

// An unwatch while a watch waits for its next try wins.
func TestUnwatchOvertakesRewatch(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		require.NoError(t, r.Watch(t.Context(), "bob", "carol"))
		c, _ := w.accept("s1")
		f := c.next(schema.TypeWatch)
		c.send(schema.ServerFrame{Type: schema.TypeError, ID: f.ID, Code: schema.FrameUnavailable, Retryable: true})
		synctest.Wait()
		go r.Unwatch(t.Context(), "bob")
		c.send(schema.ServerFrame{Type: schema.TypeOK, ID: c.next(schema.TypeUnwatch).ID})
		require.Equal(t, []schema.UID{"carol"}, c.next(schema.TypeWatch).UIDs)
		r.end(t)
	})
}

// TestOlderPresence: a gateway that knows a user as of an earlier moment than the one before says
// nothing new.
func TestOlderPresence(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		c, _ := w.accept("s1")
		tell := func(c *conn, state string, stamp *schema.Stamp) {
			c.send(schema.ServerFrame{Type: schema.TypePresence, Users: []schema.WatchedUser{{UID: "bob", State: state, Stamp: stamp}}})
		}
		tell(c, "online", &schema.Stamp{Fence: 3, K: 4})
		require.Equal(t, "online", (<-r.presence)[0].State)
		c.ws.Close(1012, "restart")
		c, _ = w.accept("s2")
		tell(c, "offline", &schema.Stamp{Fence: 3, K: 3})
		tell(c, "online", &schema.Stamp{Fence: 3, K: 4})
		require.Equal(t, "online", (<-r.presence)[0].State)
		tell(c, "unknown", nil)
		require.Equal(t, "unknown", (<-r.presence)[0].State)
		tell(c, "offline", &schema.Stamp{Fence: 3, K: 3})
		require.Equal(t, "offline", (<-r.presence)[0].State, "unknown does not stay for want of a higher stamp")
		r.end(t)
	})
}

// Callbacks may use the client; the answer does not wait for them.
func TestSendFromCallbacks(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var r *running
		replies := make(chan string, 2)
		ask := func(what string) {
			reply, err := r.Send(context.Background(), []byte(what))
			require.NoError(t, err)
			replies <- string(reply)
		}
		r = w.start(func(c *client.Config) {
			c.OnState = func(s client.State) {
				if s.Phase == client.Connected {
					ask(`"state"`)
				}
			}
			c.OnMessage = func(client.Message) { ask(`"message"`) }
		})
		c, _ := w.accept("s1")
		c.send(schema.ServerFrame{Type: schema.TypeRecv, ID: "m1", From: "bob", Payload: json.RawMessage(`1`)})
		for range 2 {
			f := c.next(schema.TypeSend)
			c.send(schema.ServerFrame{Type: schema.TypeSent, ID: f.ID, Reply: f.Payload})
			require.Equal(t, string(f.Payload), <-replies)
		}
		r.end(t)
	})
}

// What cannot be read, and what is of a newer version, costs nothing else.
func TestUnreadableFrames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		c, _ := w.accept("s1")
		c.sendBytes([]byte(`{`))
		c.sendBytes([]byte(`{"type":"recv","from":7}`))
		c.sendBytes([]byte(`{"type":"novelty","id":"m0","from":"bob"}`))
		require.NoError(t, c.ws.Write(t.Context(), websocket.MessageBinary, []byte{0xc0}))
		c.sendBytes([]byte(`{"type":"recv","id":"m1","from":"bob","payload":1,"new_field":{}}`))
		require.Equal(t, "m1", (<-r.messages).ID)
		r.end(t)
	})
}

func TestGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		r := w.start(nil)
		c, _ := w.accept("s1")
		require.NoError(t, r.Ready(t.Context()))
		r.end(t)
		<-c.ended
		require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(c.err))
		require.ErrorIs(t, r.Ready(t.Context()), client.ErrStopped)

		// Run again, beside one that runs.
		ctx, cancel := context.WithCancel(t.Context())
		again := make(chan error, 1)
		go func() { again <- r.Run(ctx) }()
		_, hello := w.accept("s2")
		require.Equal(t, schema.SessionID("s1"), hello.Resume)
		require.ErrorIs(t, r.Run(t.Context()), client.ErrRunning)
		cancel()
		require.NoError(t, <-again)
	})
}

// A gateway that does not answer the close costs a second, not the library's ten.
func TestGoodbyeToTheDeaf(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		quiet := make(chan struct{})
		r := w.start(func(c *client.Config) { c.HTTPClient = faultyClient(w, quiet, nil) })
		w.accept("s1")
		require.NoError(t, r.Ready(t.Context()))
		close(quiet)
		begin := time.Now()
		r.end(t)
		require.LessOrEqual(t, time.Since(begin), time.Second)
	})
}

func TestConfigNamesTheField(t *testing.T) {
	token := client.FixedToken("alice")
	for want, cfg := range map[string]client.Config{
		`URL "gateway:8080": it takes one as ws://`:   {URL: "gateway:8080", Token: token},
		`URL "127.0.0.1:8080": it takes one as ws://`: {URL: "127.0.0.1:8080", Token: token},
		`URL "ws:///ws": it takes one as ws://`:       {URL: "ws:///ws", Token: token},
		"token":                                       {URL: "ws://gateway/ws"},
		"device":                                      {URL: "ws://gateway/ws", Token: token, Device: schema.DeviceID(strings.Repeat("x", 200))},
		"flag":                                        {URL: "ws://gateway/ws", Token: token, Flag: "A B"},
		"Refresh":                                     {URL: "ws://gateway/ws", Token: token, RefreshBefore: -1},
		"BackoffMost":                                 {URL: "ws://gateway/ws", Token: token, BackoffLeast: time.Minute},
	} {
		_, err := client.New(cfg)
		require.ErrorContains(t, err, "client config: "+want)
	}
}
