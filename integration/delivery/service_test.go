package delivery_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

var update = flag.Bool("update", false, "write the golden files")

// backend is a service that calls the service presence.
type backend struct {
	t  *testing.T
	nc *nats.Conn
}

// serve runs the service on a mesh.
func (m *mesh) serve(config delivery.ServiceConfig) *backend {
	m.t.Helper()
	bubble.Go(m.t, delivery.NewService(m.Delivery, config).Run)
	nc, _ := m.server.Dial("backend")
	b := &backend{m.t, nc}
	bubble.Until(m.t, time.Second, "the service answers", func() bool {
		_, err := b.ask("presence.stats", "")
		return err == nil
	})
	return b
}

func (b *backend) ask(subject, body string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	return b.nc.RequestWithContext(ctx, subject, []byte(body))
}

// call gives the answer, or "<code> <sentence>".
func (b *backend) call(name, body string) string {
	b.t.Helper()
	msg, err := b.ask("presence."+name, body)
	require.NoError(b.t, err)
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		require.Empty(b.t, msg.Data)
		return code + " " + msg.Header.Get(micro.ErrorHeader)
	}
	require.True(b.t, json.Valid(msg.Data), "%s", msg.Data)
	return string(msg.Data)
}

// mask hides what differs from run to run: boots, and revisions of the bucket.
func mask(text string, gateways ...*gateway) string {
	for _, g := range gateways {
		text = strings.ReplaceAll(text, string(g.me.Boot), "<"+string(g.me.Node)+">")
	}
	text = regexp.MustCompile(`"boot":"[A-Za-z0-9_-]{22}"`).ReplaceAllString(text, `"boot":"<a-1>"`)
	text = regexp.MustCompile(`_ms":\d+`).ReplaceAllStringFunc(text, func(age string) string { // hops take a millisecond now and then
		name, ms, _ := strings.Cut(age, ":")
		n, _ := strconv.Atoi(ms)
		return name + ":" + strconv.Itoa((n+50)/100*100)
	})
	text = regexp.MustCompile(`\[\d{9,},(\d+)\]`).ReplaceAllString(text, `[<fence>,$1]`)
	return regexp.MustCompile(`"fence":\d+`).ReplaceAllString(text, `"fence":<fence>`)
}

func TestServiceGolden(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		phone := g1.login(t, "alice", "phone", "app")
		g2.login(t, "alice", "desk", "web")
		g2.login(t, "dörte straße", "", "app")
		b := m.serve(delivery.ServiceConfig{})
		time.Sleep(time.Second)
		except := fmt.Sprintf(`{"uid":"alice","node":"gw-1","boot":"%s","session":"%s"}`, g1.me.Boot, g1.name(phone))
		var out strings.Builder
		for _, c := range [][2]string{
			{"lookup", `{"uids":["alice","bob","alice"],"new_field":1}`},
			{"lookup", `{"uids":["dörte straße"],"await_ms":1000}`},
			{"lookup", `{"uids":[]}`},
			{"lookup", ``},
			{"lookup", `{"uids":["alice",""]}`},
			{"lookup", `{"uids":["a\u0000b"]}`},
			{"lookup", `{"uids":"alice"}`},
			{"lookup", `{`},
			{"lookup", `{"uids":["alice"],"await_ms":-1}`},
			{"lookup", `{"uids":["alice"],"await_ms":30001}`},
			{"push", `{"uids":["alice","bob"],"payload":{"text":"hi"},"id":"m1","from":"bob"}`},
			{"push", `{"uids":["alice"],"payload":1,"id":"m2","device":"phone"}`},
			{"push", `{"uids":["alice"],"payload":null,"id":"m3","flag":"web","ack":true}`},
			{"push", `{"uids":["alice"],"payload":"x","id":"m4","except":` + except + `,"report":"full"}`},
			{"push", `{"uids":["alice","bob"],"payload":"x","id":"m5","report":"unreached"}`},
			{"push", `{"uids":["alice"],"payload":"x","id":"m6","report":"unreached"}`},
			{"push", `{"uids":["alice","bob","alice"],"payload":"x","id":"m7","report":"counts"}`},
			{"push", `{"uids":["alice"],"payload":"x","report":"all"}`},
			{"push", `{"uids":["alice"],"id":"m8"}`},
			{"push", `{"uids":["alice"],"payload":1,"id":"m9","fallback":"missed"}`},
			{"push", `{"uids":["alice"],"payload":1,"fallback":"a.b"}`},
			{"push", `{"uids":["alice"],"payload":1,"id":"m10","ack_wait_ms":100}`},
			{"push", `{"uids":["alice"],"payload":1,"ack_wait_ms":40000}`},
			{"push", `{"uids":["alice"],"payload":1,"flag":"A B"}`},
			{"push", `{"uids":["alice"],"payload":1,"except":{"uid":"alice"}}`},
			{"push", `{"uids":["alice"],"payload":1,"from":"\n"}`},
			{"kick", `{"uid":"alice","device":"phone","reason":"spam"}`},
			{"kick", `{"uid":"alice","except_session":"` + string(g1.name(phone)) + `"}`},
			{"kick", `{"uid":"nobody"}`},
			{"kick", `{"uid":""}`},
			{"kick", `{"uid":"alice","flag":"app","token_id":"t1"}`},
			{"kick", `{"uid":"alice","session":"7"}`},
			{"explain", `{"uid":"alice"}`},
			{"explain", `{}`},
			{"stats", `{}`},
			{"stats", `[]`},
		} {
			answer := b.call(c[0], c[1])
			fmt.Fprintf(&out, "presence.%s %s\n  %s\n", c[0], mask(c[1], g1, g2), mask(answer, g1, g2))
		}
		slots := b.call("slots", "")
		processes := slots[strings.Index(slots, `"processes"`):]
		fmt.Fprintf(&out, "presence.slots, slot 0 and the processes\n  %s\n  %s\n",
			mask(slots[:strings.Index(slots, "}")+1]), mask(processes, g1, g2))
		golden(t, "service.golden", out.String())
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func uidList(n int, name func(i int) string) string {
	uids := make([]string, n)
	for i := range uids {
		uids[i] = name(i)
	}
	text, _ := json.Marshal(uids)
	return string(text)
}

func TestServiceBounds(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		b := m.serve(delivery.ServiceConfig{})
		short := func(i int) string { return fmt.Sprint("u", i) }
		require.Contains(t, b.call("lookup", `{"uids":`+uidList(1000, short)+`}`), `"u999"`)
		require.Equal(t, "413 too large: 1001 uids: a call takes at most 1000", b.call("lookup", `{"uids":`+uidList(1001, short)+`}`))
		require.Equal(t, "413 too large: 1001 uids: a call takes at most 1000", b.call("push", `{"payload":1,"uids":`+uidList(1001, short)+`}`))
		require.Equal(t, "413", b.call("push", `{"uids":["u"],"payload":"`+strings.Repeat("x", 300<<10)+`"}`)[:3])
		for _, wrong := range []string{"x", "\x7f", "é"} { // what is quoted in the answer may be longer there
			said := b.call("sessions", `{"node":"`+strings.Repeat(wrong, 500_000/len(wrong))+`"}`)
			require.Contains(t, said, "400 bad request: node")
			require.Less(t, len(said), 1100)
		}
	})
}

// What does not fit one answer is asked for again from next on; a push does nothing for it before.
func TestServiceAnswersInPages(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		name := func(i int) string { return fmt.Sprint(strings.Repeat("long-", 30), i) }
		for i := range 1000 {
			for k := range 6 {
				g.login(t, schema.UID(name(i)), schema.DeviceID(fmt.Sprint(strings.Repeat("device", 10), k)), "app")
			}
		}
		b := m.serve(delivery.ServiceConfig{})
		for _, call := range []string{"lookup", "push"} {
			answered, calls := 0, 0
			for at := 0; ; calls++ {
				body := fmt.Sprintf(`{"payload":1,"uids":%s}`, uidList(1000-at, func(i int) string { return name(at + i) }))
				var reply struct {
					Results []struct{ UID string }
					Next    int
				}
				text := b.call(call, body)
				require.LessOrEqual(t, len(text), 1<<20)
				require.NoError(t, json.Unmarshal([]byte(text), &reply))
				for i, u := range reply.Results {
					require.Equal(t, name(at+i), u.UID)
				}
				answered += len(reply.Results)
				if reply.Next == 0 {
					break
				}
				require.Len(t, reply.Results, reply.Next)
				at += reply.Next
			}
			require.Equal(t, 1000, answered)
			require.NotZero(t, calls)
		}
		require.Len(t, g.pushed(), 6000, "each once")
	})
}

func TestServiceOfAnUnreachableMesh(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		b := m.serve(delivery.ServiceConfig{})
		m.worker.Cut()
		require.Equal(t, `{"results":[{"uid":"alice","state":"unknown","partial":false,"suspect":false,"why":"unreachable","routes":[]}]}`, b.call("lookup", `{"uids":["alice"]}`))
		require.Equal(t, `503 whereabouts of the user are unknown: "alice" is unreachable`, b.call("kick", `{"uid":"alice"}`))
		require.Equal(t, `{"id":"m1","reached":0,"unreached":0,"unknown":1}`, b.call("push", `{"uids":["alice"],"id":"m1","payload":1,"report":"counts"}`))
		require.Equal(t, "504", b.call("explain", `{"uid":"alice"}`)[:3])
		require.Equal(t, `{"users":0,"sessions":0,"nodes":[],"missing":["a-1"]}`, b.call("stats", ``))
	})
}

func TestServiceIsDiscoverable(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		b := m.serve(delivery.ServiceConfig{Version: "1.2.3"})
		subject, err := micro.ControlSubject(micro.InfoVerb, "presence", "")
		require.NoError(t, err)
		msg, err := b.ask(subject, "")
		require.NoError(t, err)
		var info micro.Info
		require.NoError(t, json.Unmarshal(msg.Data, &info))
		require.Equal(t, "1.2.3", info.Version)
		var subjects []string
		for _, e := range info.Endpoints {
			subjects = append(subjects, e.Subject)
			require.NotEmpty(t, e.QueueGroup, "each call is served once")
			require.NotEmpty(t, e.Metadata["description"])
			for _, part := range []string{"request", "response"} {
				require.True(t, json.Valid([]byte(e.Metadata[part])), "%s of %s", part, e.Name)
			}
		}
		require.Equal(t, []string{"presence.lookup", "presence.push", "presence.kick", "presence.sessions", "presence.explain", "presence.slots", "presence.stats"}, subjects)
	})
}

// A slow call does not hold up the others; beyond the bound they are told to come again. Run ends
// with its context, when what it was serving is answered.
func TestServiceIsConcurrentAndBounded(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		b := m.serve(delivery.ServiceConfig{Workers: 2})
		g.set(func(g *gateway) { g.silent = true })
		slow := make(chan string, 2)
		for range 2 {
			go func() { slow <- b.call("push", `{"uids":["alice"],"payload":1,"report":"counts","id":"m"}`) }()
			time.Sleep(time.Millisecond)
			if len(slow) == 0 {
				continue
			}
		}
		require.Equal(t, "429 too many calls at once, try again in a moment", b.call("lookup", `{"uids":["alice"]}`))
		require.Equal(t, `{"id":"m","reached":0,"unreached":0,"unknown":1}`, <-slow)
		require.Contains(t, b.call("lookup", `{"uids":["alice"]}`), `"online"`)
		<-slow
	})
	run(t, func(t *testing.T, m *mesh) {
		service := bubble.Go(t, delivery.NewService(m.Delivery, delivery.ServiceConfig{}).Run)
		time.Sleep(time.Second)
		require.NoError(t, service.Stop())
		service = bubble.Go(t, delivery.NewService(m.Delivery, delivery.ServiceConfig{}).Run)
		time.Sleep(time.Second)
		m.nc.Close()
		require.ErrorIs(t, service.Wait(), delivery.ErrClosed)
	})
}
