package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMain(m *testing.M) { process.Main(m) }

// demo is a running demo and where its parts are.
type demo struct {
	*process.Process
	gateways []string // host:port
	nats     string   // URL
	admin    string   // URL
}

func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	d := &demo{Process: process.StartWith(t, process.Env{"TMPDIR=" + t.TempDir()}, append([]string{"demo",
		"--listen", "127.0.0.1:0,127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)}
	last := d.Line("Ctrl-C")
	d.nats = regexp.MustCompile(`nats://[0-9.:]+`).FindString(last)
	d.admin = strings.TrimSuffix(regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(last), "/metrics")
	for _, m := range regexp.MustCompile(`http://([0-9.:]+)/  \(gateway`).FindAllStringSubmatch(strings.Join(d.Said(), "\n"), -1) {
		d.gateways = append(d.gateways, m[1])
	}
	require.Len(t, d.gateways, 2)
	return d
}

// ask runs a command against the demo.
func (d *demo) ask(t *testing.T, args ...string) process.Result {
	t.Helper()
	return process.Run(t, process.Env{"NATS_URL=" + d.nats}, "", args...)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(body)
}

func TestDemoStartsAndEndsInTime(t *testing.T) {
	begun := time.Now()
	d := startDemo(t)
	require.Less(t, time.Since(begun), 2*time.Second)
	d.Line("-s " + d.nats) // its address is not the default one
	status, body := get(t, d.admin+"/readyz")
	require.Equal(t, http.StatusOK, status, body)
	for _, role := range []string{"authority a-1", "chat chat", "delivery d-1", "gateway gw-1", "gateway gw-2"} {
		require.Contains(t, body, role+": ready\n")
	}
	status, _ = get(t, d.admin+"/healthz")
	require.Equal(t, http.StatusOK, status)
	_, body = get(t, d.admin+"/metrics")
	require.Contains(t, body, `rollcall_authority_slots{node="a-1",role="authority",state="ready"} 256`)
	require.Contains(t, body, `rollcall_nats_connections{node="gw-1",role="gateway",state="up"} 2`)
	require.Contains(t, body, `rollcall_nats_connections{node="gw-1",role="gateway",state="down"} 0`)
	_, body = get(t, "http://"+d.gateways[1]+"/")
	require.Contains(t, body, "<title>")

	begun = time.Now()
	d.Signal(syscall.SIGINT)
	require.Zero(t, d.Wait())
	require.Less(t, time.Since(begun), 2*time.Second)
	for _, line := range d.Said() {
		require.NotContains(t, line, "level=", "a demo that goes well says nothing but its welcome")
	}
}

func TestDemoLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	p := process.StartWith(t, process.Env{"TMPDIR=" + dir}, "demo", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin-listen", "")
	p.Line("ready in")
	p.Stop()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDemoKeepsItsDataWhereTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 { // the second start finds what the first has left
		d := startDemo(t, "--data", dir)
		r := d.ask(t, "lookup", "alice", "--await", "20s")
		require.Zero(t, r.Code, r.Err)
		d.Stop()
	}
	require.DirExists(t, filepath.Join(dir, "nats", "jetstream"))
}

// session is a client of the demo.
type session struct {
	*client.Client
	messages chan client.Message
	states   chan client.State
}

func (d *demo) login(t *testing.T, gateway int, uid, device string) *session {
	t.Helper()
	s := &session{messages: make(chan client.Message, 64), states: make(chan client.State, 64)}
	var err error
	s.Client, err = client.New(client.Config{
		URL: "ws://" + d.gateways[gateway] + "/ws", Token: client.FixedToken(uid), Device: schema.DeviceID(device), Flag: "app", Level: schema.Master,
		OnMessage: func(m client.Message) { s.messages <- m }, OnState: func(st client.State) { s.states <- st },
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{}).DialContext}},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	require.NoError(t, s.Ready(t.Context()))
	return s
}

func receive[T any](t *testing.T, c chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}

// rows gives the lines of --json as values.
func rows[T any](t *testing.T, r process.Result) []T {
	t.Helper()
	require.Zero(t, r.Code, r.Err)
	var list []T
	for line := range strings.Lines(r.Out) {
		var v T
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		list = append(list, v)
	}
	return list
}

func TestDemoChats(t *testing.T) {
	d := startDemo(t)
	alice, bob := d.login(t, 0, "alice", "phone"), d.login(t, 1, "bob", "phone")
	reply, err := alice.Send(t.Context(), []byte(`{"to":"bob","text":"hi"}`))
	require.NoError(t, err)
	var pushed schema.PushReply
	require.NoError(t, json.Unmarshal(reply, &pushed))
	require.Len(t, pushed.Results, 1)
	require.True(t, pushed.Results[0].Reached)
	require.Equal(t, schema.PushWritten, pushed.Results[0].Routes[0].Result)
	m := receive(t, bob.messages)
	require.Equal(t, schema.UID("alice"), m.From)
	require.JSONEq(t, `{"from":"alice","text":"hi"}`, string(m.Payload))

	_, err = alice.Send(t.Context(), []byte(`{"text":"to nobody"}`))
	require.ErrorIs(t, err, schema.FrameBackendError)
}

func TestCommandsAgainstTheDemo(t *testing.T) {
	d := startDemo(t)
	events := process.StartWith(t, process.Env{"NATS_URL=" + d.nats}, "events", "--log-level", "debug")
	watch := process.StartWith(t, process.Env{"NATS_URL=" + d.nats}, "watch", "alice", "bob")
	watch.Line("bob") // has looked up, so it listens
	d.login(t, 0, "alice", "phone")
	bob := d.login(t, 1, "bob", "phone")
	watch.Line("online   alice")

	users := rows[schema.UserReply](t, d.ask(t, "lookup", "alice", "carol", "alice", "--json"))
	require.Len(t, users, 3)
	require.Equal(t, schema.Offline, users[1].State)
	require.Equal(t, users[0].Routes[0].Session, users[2].Routes[0].Session)
	require.EqualValues(t, "gw-1", users[0].Routes[0].Node)
	piped := process.Run(t, process.Env{"NATS_URL=" + d.nats}, "alice\nbob\n", "lookup", "-", "--json")
	require.Len(t, rows[schema.UserReply](t, piped), 2)
	require.Contains(t, d.ask(t, "lookup", "alice").Out, "phone")

	pushed := rows[schema.PushedReply](t, d.ask(t, "push", "bob", "carol", `{"n":1}`, "--from", "boss", "--json"))
	require.Equal(t, []bool{true, false}, []bool{pushed[0].Reached, pushed[1].Reached})
	require.JSONEq(t, `{"n":1}`, string(receive(t, bob.messages).Payload))

	stats := rows[schema.StatsReply](t, d.ask(t, "stats", "--json"))
	require.Equal(t, []int{2, 2}, []int{stats[0].Users, stats[0].Sessions})
	require.Len(t, rows[schema.SlotStatus](t, d.ask(t, "slots", "--json")), schema.Slots)
	require.Len(t, rows[schema.ProcessStatus](t, d.ask(t, "nodes", "--json")), 3)
	require.Len(t, rows[schema.Explanation](t, d.ask(t, "explain", "alice", "--json"))[0].Routes, 1)

	sessions := rows[schema.SessionReply](t, d.ask(t, "sessions", "gw-1", "--json"))
	require.Len(t, sessions, 1)
	require.EqualValues(t, "alice", sessions[0].UID)
	require.Contains(t, d.ask(t, "sessions", "gw-2").Out, "bob")

	kicked := rows[schema.RouteKicked](t, d.ask(t, "kick", "bob", "--reason", "enough", "--json"))
	require.Equal(t, schema.KickClosed, kicked[0].Result)
	for {
		if s := receive(t, bob.states); s.Phase == client.Stopped {
			var lost *client.LostError
			require.ErrorAs(t, s.Err, &lost)
			require.Equal(t, schema.CloseRemoved, lost.Code)
			break
		}
	}
	watch.Line("offline  bob")
	events.Line("offline  bob") // it may have come too late for the login
}

func TestDecodeBehindASubscription(t *testing.T) {
	d := startDemo(t)
	nc, err := nats.Connect(d.nats)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	all, err := nc.SubscribeSync("slot.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	d.login(t, 0, "alice", "phone")
	for {
		m, err := all.NextMsg(10 * time.Second)
		require.NoError(t, err)
		if !strings.HasSuffix(m.Subject, ".register") {
			continue
		}
		r := process.Run(t, nil, string(m.Data), "decode")
		require.Zero(t, r.Code, r.Err)
		require.Contains(t, r.Out, `"kind":"register"`)
		require.Contains(t, r.Out, `"alice"`)
		return
	}
}
