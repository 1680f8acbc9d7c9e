package mesh_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// pushed is one push and when it was answered.
type pushed struct {
	took time.Duration
	*delivery.Pushed
}

// push pushes to users and gives "uid reached results" of each.
func push(t *testing.T, m *mesh.Mesh, id string, users []schema.UID, options ...delivery.CallOption) ([]string, time.Duration) {
	t.Helper()
	p := pushIn(m, id, users, options...)
	return p.lines(), p.took
}

func pushIn(m *mesh.Mesh, id string, users []schema.UID, options ...delivery.CallOption) pushed {
	begun := time.Now()
	p, err := m.Push(context.Background(), delivery.Message{ID: id, From: "sender", Payload: json.RawMessage(`{"n":1}`)}, users, options...)
	require.NoError(m.T, err)
	return pushed{time.Since(begun), p}
}

func (p pushed) lines() []string {
	list := []string{}
	for _, u := range p.Users {
		parts := []string{string(u.UID), fmt.Sprint(u.Reached)}
		for _, r := range u.Routes {
			parts = append(parts, r.Result.String())
		}
		list = append(list, strings.Join(parts, " "))
	}
	return list
}

// acks answers the message with this id as a device does that has it.
func acks(s *mesh.Socket, id string) {
	s.Send(schema.ClientFrame{Type: schema.TypeAck, Acks: []uint64{s.Next(0, schema.TypeRecv, id).Ack}})
}

// TestAckWait has callers wait for devices that acknowledge at once, later, and never.
func TestAckWait(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		one.Login("alice", "phone")
		bob, carol := one.Enter("bob"), two.Enter("carol")
		var wg sync.WaitGroup
		wg.Go(func() {
			m.Pass(time.Second)
			acks(carol, "m1")
			// The lanes are free although m1 still waits.
			lines, took := push(t, m, "m2", []schema.UID{"bob", "carol"})
			require.Equal(t, []string{"bob true written", "carol true written"}, lines)
			require.Less(t, took, 50*time.Millisecond)
		})
		lines, took := push(t, m, "m1", []schema.UID{"alice", "bob", "nobody", "carol", "alice"}, delivery.AckWait(3*time.Second))
		wg.Wait()
		require.Equal(t, []string{"alice true acked", "bob true written", "nobody false", "carol true acked", "alice true acked"}, lines)
		require.InDelta(t, 3, took.Seconds(), 0.1, "bob says nothing")
		require.Equal(t, 1, bob.Got("m1"))

		lines, took = push(t, m, "m3", []schema.UID{"alice"}, delivery.AckWait(30*time.Second))
		require.Equal(t, []string{"alice true acked"}, lines)
		require.Less(t, took, 50*time.Millisecond, "nobody else is waited for")

		lines, took = push(t, m, "m4", []schema.UID{"nobody"}, delivery.AckWait(30*time.Second))
		require.Equal(t, []string{"nobody false"}, lines)
		require.Less(t, took, 50*time.Millisecond)
	})
}

// TestAckWaitEndsWithTheSession: whose session ends acknowledges nothing any more, and is not waited
// for; whose gateway dies is waited for no longer than was said.
func TestAckWaitEndsWithTheSession(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(m *mesh.Mesh, s *mesh.Socket)
		took float64 // seconds
	}{
		"left":   {func(_ *mesh.Mesh, s *mesh.Socket) { s.Leave() }, 1},
		"broken": {func(_ *mesh.Mesh, s *mesh.Socket) { s.Kill() }, 1},
		"kicked": {func(m *mesh.Mesh, _ *mesh.Socket) {
			_, err := m.Kick(context.Background(), delivery.KickRequest{UID: "bob"})
			require.NoError(m.T, err)
		}, 1},
		"gateway killed": {func(m *mesh.Mesh, _ *mesh.Socket) { m.Gateways[0].Kill() }, 5.5},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
				bob := m.Gateways[0].Enter("bob")
				var wg sync.WaitGroup
				wg.Go(func() {
					m.Pass(time.Second)
					c.end(m, bob)
				})
				lines, took := push(t, m, "m1", []schema.UID{"bob"}, delivery.AckWait(5*time.Second))
				wg.Wait()
				require.Equal(t, []string{"bob true written"}, lines, "it was, and that is all that is known")
				require.InDelta(t, c.took, took.Seconds(), 0.1)
			})
		})
	}
}

// TestOpenAcksOverflow: a device that owes 1,024 acknowledgements gets no further message that
// wants one, and the sender is told; old ones are forgotten after 30 s.
func TestOpenAcksOverflow(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1, Gateway: func(c *gateway.Config) { c.Limits.QueueFrames = 4096 }}, func(t *testing.T, m *mesh.Mesh) {
		bob := m.Gateways[0].Enter("bob")
		send := func(id string, ack bool) []string {
			p, err := m.Push(t.Context(), delivery.Message{ID: id, Payload: json.RawMessage(`1`), Ack: ack}, []schema.UID{"bob"})
			require.NoError(t, err)
			return pushed{Pushed: p}.lines()
		}
		for i := range 1024 {
			require.Equal(t, []string{"bob true written"}, send(fmt.Sprint("m", i), true))
		}
		require.Equal(t, []string{"bob false queue_full"}, send("over", true))
		require.Equal(t, []string{"bob true written"}, send("without", false))
		acks(bob, "m7")
		m.Pass(10 * time.Millisecond)
		require.Equal(t, []string{"bob true written"}, send("again", true))
		require.Equal(t, []string{"bob false queue_full"}, send("over", true))
		m.Pass(30 * time.Second)
		require.Equal(t, []string{"bob true written"}, send("later", true))
		require.Zero(t, bob.Got("over"))
	})
}

// TestResultsUnderFaults has something befall recipients while their part of a batch is on its way.
func TestResultsUnderFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(m *mesh.Mesh, bob *mesh.Socket)
		want  string // of bob, on the gateway whose part is late
		left  schema.UserState
	}{
		"nothing":        {func(*mesh.Mesh, *mesh.Socket) {}, "bob true written", schema.Online},
		"session closed": {func(_ *mesh.Mesh, bob *mesh.Socket) { bob.Leave() }, "bob false no_session", schema.Offline},
		"socket broken":  {func(_ *mesh.Mesh, bob *mesh.Socket) { bob.Kill() }, "bob false no_session", schema.Offline},
		"kicked": {func(m *mesh.Mesh, _ *mesh.Socket) {
			_, err := m.Kick(context.Background(), delivery.KickRequest{UID: "bob"})
			require.NoError(m.T, err)
		}, "bob false no_session", schema.Offline},
		"replaced": {func(m *mesh.Mesh, _ *mesh.Socket) {
			m.Gateways[1].Enter("bob", mesh.As("phone", "app", schema.Master))
		}, "bob false no_session", schema.Online},
		"owner killed": {func(m *mesh.Mesh, _ *mesh.Socket) { m.Gateways[0].Kill() }, "bob false owner_gone", schema.Online},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
				one, two := m.Gateways[0], m.Gateways[1]
				bob := one.Enter("bob", mesh.As("phone", "app", schema.Master))
				carol, mine := two.Enter("carol"), two.Enter("sender", mesh.As("a", "app", schema.Slave))
				other := two.Enter("sender", mesh.As("b", "app", schema.Slave))
				own, _ := mine.Current()
				boot, _, _ := own.Parse()
				m.Asker.Delay(subjects.Prefix("").Push(one.Me()), 1, time.Second)
				var wg sync.WaitGroup
				wg.Go(func() {
					m.Pass(500 * time.Millisecond)
					c.fault(m, bob)
				})
				lines, _ := push(t, m, "m1", []schema.UID{"carol", "bob", "nobody", "bob", "sender"},
					delivery.Except(schema.Except{UID: "sender", Node: "gw-2", Boot: boot, Session: own}))
				wg.Wait()
				require.Equal(t, []string{"carol true written", c.want, "nobody false", c.want, "sender true written"}, lines)
				m.Pass(time.Second)
				require.Equal(t, 1, carol.Got("m1"))
				require.Equal(t, 1, other.Got("m1"))
				require.Zero(t, mine.Got("m1"))
				if c.want == "bob true written" {
					require.Equal(t, 1, bob.Got("m1"), "once, although named twice")
				} else {
					require.Zero(t, bob.Got("m1"))
				}
				found, err := m.Lookup(t.Context(), []schema.UID{"bob"})
				require.NoError(t, err)
				if name != "owner killed" { // whose route lives on until its key ends
					require.Equal(t, c.left, found[0].State)
				}
			})
		})
	}
}

func TestPushToNobody(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		lines, took := push(t, m, "m1", nil, delivery.AckWait(time.Second), delivery.Fallback("missed"))
		require.Empty(t, lines)
		require.Zero(t, took)
	})
}

// TestFallback publishes whom a message did not reach, once each, with the reason.
func TestFallback(t *testing.T) {
	mesh.Run(t, mesh.Options{Gateway: func(c *gateway.Config) { c.Limits.QueueFrames = 1 }}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		one.Login("here", "phone")
		one.Enter("here on web", mesh.As("w", "web", schema.Slave))
		me := one.Enter("sender")
		two.Login("orphan", "phone")
		silent := m.StartGateway("gw-3")
		m.Pass(6 * time.Second) // slots wait for its last chunk, and are rebuilding meanwhile
		silent.Login("mute", "phone")
		got := make(chan *nats.Msg, 100)
		subject, err := subjects.Prefix("").Fallback("missed")
		require.NoError(t, err)
		_, err = m.Outsider.ChanSubscribe(subject, got)
		require.NoError(t, err)
		require.NoError(t, m.Outsider.Flush())
		own, _ := me.Current()
		boot, _, _ := own.Parse()
		two.Kill()
		silent.Cut()

		var reply schema.PushReply
		code, why := m.Call("push", schema.PushCall{
			UIDs: []schema.UID{"here", "nobody", "sender", "orphan", "nobody", "here on web", "mute"}, ID: "m1", From: "sender",
			Payload: json.RawMessage(`{"n":1}`), Flag: "app", Fallback: "missed",
			Except: &schema.Except{UID: "sender", Node: "gw-1", Boot: boot, Session: own},
		}, &reply)
		require.Empty(t, code, why)
		require.Len(t, reply.Results, 7)
		require.Zero(t, reply.FallbackFailed)
		m.Pass(time.Second)
		var list []string
		for range len(got) {
			list = append(list, string((<-got).Data))
		}
		require.Equal(t, []string{
			`{"id":"m1","uid":"nobody","from":"sender","payload":{"n":1},"why":"offline"}`,
			`{"id":"m1","uid":"orphan","from":"sender","payload":{"n":1},"why":"owner_gone"}`,
			`{"id":"m1","uid":"here on web","from":"sender","payload":{"n":1},"why":"offline"}`,
			`{"id":"m1","uid":"mute","from":"sender","payload":{"n":1},"why":"unknown"}`,
		}, list)
		code, why = m.Call("push", schema.PushCall{UIDs: []schema.UID{"nobody"}, Payload: json.RawMessage(`1`), Fallback: "a.b"}, &reply)
		require.Equal(t, "400", code)
		require.Contains(t, why, "a.b")
	})
}

// TestFallbackIsNotTaken: where NATS cannot be reached the answer counts the users, each once, of whom
// nothing could be published; in a time that is bounded, also where the caller has none left.
func TestFallbackIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(m *mesh.Mesh)
		took time.Duration // a look-up, and the server's time to say that it has them
	}{
		"silence":   {func(m *mesh.Mesh) { m.Asker.Cut() }, 2600 * time.Millisecond},
		"no server": {func(m *mesh.Mesh) { m.Server.Stop() }, 600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
				m.Gateways[0].Enter("alice")
				c.lose(m)
				p := pushIn(m, "m1", []schema.UID{"alice", "nobody", "alice"}, delivery.Fallback("missed"))
				require.Equal(t, []string{"alice false", "nobody false", "alice false"}, p.lines())
				require.Equal(t, 2, p.FallbackFailed)
				require.LessOrEqual(t, p.took, c.took)
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				begun := time.Now()
				again, err := m.Push(ctx, delivery.Message{Payload: json.RawMessage(`1`)}, []schema.UID{"nobody"}, delivery.Fallback("missed"))
				require.NoError(t, err)
				require.Equal(t, 1, again.FallbackFailed)
				require.LessOrEqual(t, time.Since(begun), 2100*time.Millisecond)
			})
		})
	}
}
