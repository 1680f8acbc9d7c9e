package cli_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
)

// site is a NATS server with the users of deploy/nats.conf, and processes beside it that know their
// own password only.
type site struct {
	t    *testing.T
	nats *app.NATS
}

func newSite(t *testing.T) *site {
	t.Helper()
	n, err := app.StartNATS(app.NATSConfig{Store: t.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(t, err)
	t.Cleanup(n.Stop)
	return &site{t, n}
}

// as gives the variables of a user.
func (s *site) as(u deploy.User) process.Env {
	return process.Env{"ROLLCALL_NATS=" + s.nats.URL(), "ROLLCALL_USER=" + string(u), "ROLLCALL_PASSWORD=" + s.nats.Password(u)}
}

func (s *site) authority(node string) *process.Process {
	return process.StartWith(s.t, s.as(deploy.Authority), "authority", "--node", node)
}

func (s *site) gateway(node string, args ...string) *process.Process {
	return process.StartWith(s.t, s.as(deploy.Gateway),
		append([]string{"gateway", "--node", node, "--listen", "127.0.0.1:0", "--auth", "insecure"}, args...)...)
}

func (s *site) delivery(node string) *process.Process {
	return process.StartWith(s.t, s.as(deploy.Delivery), "delivery", "--node", node)
}

// address is where a gateway says that it listens.
func address(p *process.Process) string {
	_, at, _ := strings.Cut(p.Line("gateway listens"), "at=")
	return at
}

// bucket is the mesh's, as an operator reaches it.
func (s *site) bucket() jetstream.KeyValue {
	s.t.Helper()
	nc, err := nats.Connect("", s.nats.Options(deploy.Operator)...)
	require.NoError(s.t, err)
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(s.t, err)
	kv, err := js.KeyValue(s.t.Context(), "presence")
	require.NoError(s.t, err)
	return kv
}

func TestRolesAsProcessesWithTheirOwnUsers(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s") // so that a young bucket is ready in half a second
	require.Zero(t, r.Code, r.Err)
	roles := []*process.Process{s.authority("a-1"), s.gateway("gw-1"), s.delivery("d-1")}
	at := address(roles[1])
	roles[2].Line("serving")
	backend := process.StartWith(t, s.as(deploy.Backend), "watch", "alice")
	backend.Line("alice")
	client := process.StartWith(t, nil, "connect", "--url", "ws://"+at+"/ws", "--token", "alice", "--device", "phone", "--flag", "app")
	client.Line("connected to gw-1 as alice")
	backend.Line("online   alice")
	r = process.Run(t, s.as(deploy.Backend), "", "push", "alice", "-p", "hello there", "--from", "boss")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "written")
	client.Line("boss: hello there")
	r = process.Run(t, s.as(deploy.Operator), "", "nodes")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, at)

	for _, p := range []*process.Process{client, backend, roles[1], roles[2], roles[0]} {
		p.Stop()
	}
	for _, p := range roles {
		for _, line := range p.Said() {
			require.NotContains(t, line, "refuses", "a permission is missing in deploy/nats.conf")
			require.NotContains(t, line, "level=ERROR")
		}
	}
}

func TestAUserThatMayNotIsTold(t *testing.T) {
	s := newSite(t)
	s.authority("a-1").Line("serving")
	r := process.Run(t, s.as(deploy.Gateway), "", "lookup", "alice")
	require.Equal(t, app.ExitFailed, r.Code)
	require.Contains(t, r.Err, "refuses")
	require.Contains(t, r.Err, "presence.lookup")
	r = process.Run(t, s.as(deploy.Backend), "", "lookup", "alice")
	require.Equal(t, app.ExitUnreachable, r.Code)
	require.Contains(t, r.Err, "run rollcall delivery")
	wrong := process.StartWith(t, append(s.as(deploy.Gateway), "ROLLCALL_USER=backend", "ROLLCALL_PASSWORD="+s.nats.Password(deploy.Backend)),
		"gateway", "--node", "gw-1", "--listen", "127.0.0.1:0", "--auth", "insecure")
	wrong.Line("NATS refuses this user a subject")
	wrong.Stop()
}

func TestARoleWaitsForNATS(t *testing.T) {
	store := t.TempDir()
	first, err := app.StartNATS(app.NATSConfig{Store: store, Listen: "127.0.0.1:0", OpenOperator: true})
	require.NoError(t, err)
	url := first.URL()
	first.Stop()

	gateway := process.Start(t, "gateway", "--nats", url, "--node", "gw-1", "--listen", "127.0.0.1:0", "--auth", "insecure", "--admin-listen", "127.0.0.1:0")
	require.Contains(t, gateway.Line("waiting for NATS"), url)
	_, admin, _ := strings.Cut(gateway.Line("msg=admin"), "listen=")
	status, _ := get(t, "http://"+admin+"/healthz")
	require.Equal(t, http.StatusOK, status)
	status, body := get(t, "http://"+admin+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "not ready")

	again, err := app.StartNATS(app.NATSConfig{Store: store, Listen: strings.TrimPrefix(url, "nats://"), OpenOperator: true})
	require.NoError(t, err)
	t.Cleanup(again.Stop)
	gateway.Line("NATS is there")
	gateway.Line("waiting for the bucket")
	authority := process.Start(t, "authority", "--nats", url, "--node", "a-1")
	authority.Line("serving")
	gateway.Line("gateway listens")
	process.Eventually(t, 10*time.Second, "the gateway is ready", func() bool {
		status, body = get(t, "http://"+admin+"/readyz")
		return status == http.StatusOK
	})
	require.Equal(t, "gateway gw-1: ready\n", body)
	gateway.Stop()
	authority.Stop()
}

func TestARoleThatWaitsCanBeEnded(t *testing.T) {
	for _, role := range []string{"authority", "delivery"} {
		p := process.Start(t, role, "--nats", "nats://127.0.0.1:1", "--node", "n")
		p.Line("waiting for NATS")
		p.Stop()
	}
}

func TestAnotherMeshIsRefused(t *testing.T) {
	s := newSite(t)
	s.authority("a-1").Line("serving")
	kv := s.bucket()
	_, err := kv.Put(t.Context(), "config", []byte(`{"slots":128,"format":1,"lease_ms":30000,"heartbeat_ms":30000,"ttl_ms":90000,"policy":"levels","max_sessions":32}`))
	require.NoError(t, err)
	for _, p := range []*process.Process{s.authority("a-2"), s.gateway("gw-1"), s.delivery("d-1")} {
		require.Equal(t, app.ExitFailed, p.Wait())
		line := p.Line("rollcall: ")
		require.Contains(t, line, "slots is 128 there and 256 in this program")
	}
}

func TestANodeNameIsTakenOnce(t *testing.T) {
	s := newSite(t)
	s.authority("a-1").Line("serving")
	s.gateway("gw-1").Line("gateway lives")
	second := s.gateway("gw-1")
	require.Equal(t, app.ExitFailed, second.Wait())
	require.Contains(t, second.Line("rollcall: "), "node name is taken")
}

func TestSetup(t *testing.T) {
	s := newSite(t)
	operator := s.as(deploy.Operator)
	r := process.Run(t, operator, "", "setup", "--replicas", "3")
	require.Equal(t, app.ExitFailed, r.Code)
	require.Contains(t, r.Err, "in no cluster")
	r = process.Run(t, operator, "", "setup", "--policy", "single", "--max-sessions", "5", "--json") // makes the bucket
	config := rows[schema.Config](t, r)[0]
	require.Equal(t, "single", config.Policy)
	require.Equal(t, 5, config.MaxSessions)
	r = process.Run(t, operator, "", "setup", "--replicas", "3")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "with 1 copy")
	for _, other := range []deploy.User{deploy.Backend, deploy.Gateway} {
		r = process.Run(t, s.as(other), "", "setup", "--grace", "1s")
		require.Equal(t, app.ExitFailed, r.Code)
		require.Contains(t, r.Err, "NATS refuses this user a subject", string(other))
		require.NotContains(t, r.Err, "context canceled")
	}
	r = process.Run(t, operator, "", "setup", "--ttl", "30s")
	require.Equal(t, app.ExitUsage, r.Code)
	require.Contains(t, r.Err, "3 heartbeats")
	r = process.Run(t, operator, "", "setup", "--heartbeat", "10s", "--ttl", "30s", "--json")
	require.Equal(t, 30*time.Second, rows[schema.Config](t, r)[0].TTL())
	require.Contains(t, r.Err, "restart")
	require.Equal(t, 5*time.Second, rows[schema.Config](t, r)[0].Grace())
	r = process.Run(t, operator, "", "setup", "--grace", "0", "--json")
	require.Zero(t, r.Code, r.Err)
	require.Zero(t, rows[schema.Config](t, r)[0].Grace())
	require.NotContains(t, r.Err, "restart", "it is followed at once")
	r = process.Run(t, operator, "", "setup", "--events", "--json")
	require.Zero(t, r.Code, r.Err)
	require.True(t, rows[schema.Config](t, r)[0].Events)
	r = process.Run(t, operator, "", "setup", "--events-max-age", "1h")
	require.Zero(t, r.Code, r.Err)
	r = process.Run(t, operator, "", "setup", "--events=off", "--json")
	require.Zero(t, r.Code, r.Err)
	require.False(t, rows[schema.Config](t, r)[0].Events)
	require.Contains(t, r.Err, "nats stream rm presence_events")
	r = process.Run(t, operator, "", "setup", "--last-seen", "720h", "--json")
	require.Zero(t, r.Code, r.Err)
	require.True(t, rows[schema.Config](t, r)[0].LastSeen)
	r = process.Run(t, operator, "", "setup", "--last-seen", "off", "--json")
	require.Zero(t, r.Code, r.Err)
	require.False(t, rows[schema.Config](t, r)[0].LastSeen)
	r = process.Run(t, operator, "", "setup", "--watch=off", "--json")
	require.Zero(t, r.Code, r.Err)
	require.True(t, rows[schema.Config](t, r)[0].WatchOff)
	r = process.Run(t, operator, "", "setup", "--max-sessions", "6", "--json")
	require.True(t, rows[schema.Config](t, r)[0].WatchOff, "as it was")
	r = process.Run(t, operator, "", "setup", "--watch", "--json")
	require.Zero(t, r.Code, r.Err)
	require.False(t, rows[schema.Config](t, r)[0].WatchOff)
	for _, wrong := range [][]string{{"--watch=perhaps"}, {"--last-seen", "1m"}, {"--last-seen", "never"}, {"--events=perhaps"}, {"--events-max-age", "1m", "--events"}, {"--events-max-age", "1h"}, {"--events=off", "--events-max-age", "1h"}} {
		r = process.Run(t, operator, "", append([]string{"setup"}, wrong...)...)
		require.Equal(t, app.ExitUsage, r.Code, "%v: %s", wrong, r.Err)
	}
	for flag, wrong := range map[string]string{"--grace": "11m", "--max-sessions": "0", "--lease": "0", "--heartbeat": "0", "--ttl": "0"} {
		r = process.Run(t, operator, "", "setup", flag, wrong)
		require.Equal(t, app.ExitUsage, r.Code, flag)
		require.Equal(t, 1, strings.Count(r.Err, "it takes"), "said once: %s", r.Err)
	}
	r = process.Run(t, operator, "", "setup")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "single")
}

func TestGatewayWithTokens(t *testing.T) {
	s := newSite(t)
	s.authority("a-1").Line("serving")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"), 0o600))
	gateway := process.StartWith(t, s.as(deploy.Gateway), "gateway", "--node", "gw-1", "--listen", "127.0.0.1:0", "--jwt-key", secret)
	url := "ws://" + address(gateway) + "/ws"
	token := process.Run(t, nil, "", "token", "alice", "--device", "phone", "--jwt-key", secret)
	require.Zero(t, token.Code, token.Err)
	client := process.StartWith(t, process.Env{"ROLLCALL_TOKEN=" + strings.TrimSpace(token.Out)}, "connect", "--url", url)
	client.Line("connected to gw-1 as alice")
	client.Stop()
	forged := process.StartWith(t, process.Env{"ROLLCALL_TOKEN=alice"}, "connect", "--url", url)
	require.Equal(t, app.ExitFailed, forged.Wait())
	forged.Line("3500")
}

func TestAllInOneProcess(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second start finds what the first has left
		all := process.Start(t, "all", "--embed", dir, "--nats-listen", "127.0.0.1:0", "--node", "one", "--listen", "127.0.0.1:0",
			"--auth", "insecure", "--log-level", "info")
		_, url, _ := strings.Cut(all.Line("msg=nats-server"), "listen=")
		url, _, _ = strings.Cut(url, " ")
		client := process.Start(t, "connect", "--url", "ws://"+address(all)+"/ws", "--token", "alice", "--device", "d")
		client.Line("connected to one as alice")
		all.Line("service=presence")
		r := process.Run(t, process.Env{"NATS_URL=" + url}, "", "lookup", "alice")
		require.Zero(t, r.Code, r.Err)
		require.Contains(t, r.Out, "online")
		client.Stop()
		all.Stop()
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	s := newSite(t)
	s.authority("a-1").Line("serving")
	gateway := s.gateway("gw-1", "--drain-wait", "1h")
	gateway.Line("gateway lives")
	gateway.Signal(syscall.SIGTERM)
	gateway.Line("drain")
	gateway.Signal(syscall.SIGTERM)
	require.Equal(t, app.ExitInterrupted, gateway.Wait())
}

func TestPortsInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	at := taken.Addr().String()
	base := []string{"demo", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}
	for _, flag := range []string{"--listen", "--nats-listen", "--admin-listen"} {
		r := process.Run(t, nil, "", append(base, flag, at)...)
		require.Equal(t, app.ExitFailed, r.Code, flag)
		require.Equal(t, "rollcall: "+flag+" "+at+" is in use: end the program that listens there, or name another address\n", r.Err)
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, args := range [][]string{{"demo", "--data"}, {"all", "--auth", "insecure", "--embed"}} {
		r := process.Run(t, nil, "", append(args, filepath.Join(file, "x"), "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--admin-listen", "")...)
		require.Equal(t, app.ExitFailed, r.Code)
		require.Equal(t, 1, strings.Count(r.Err, "\n"), r.Err)
		require.Contains(t, r.Err, "not a directory")
	}
}

func TestExitCodesOfTheProgram(t *testing.T) {
	require.Equal(t, app.ExitUsage, process.Run(t, nil, "", "gateway", "--lisen", "x").Code)
	require.Equal(t, app.ExitUnreachable, process.Run(t, nil, "", "lookup", "alice", "--nats", "nats://127.0.0.1:1").Code)
	require.Zero(t, process.Run(t, nil, `{"a":1}`, "decode").Code)
	require.Equal(t, app.ExitFailed, process.Run(t, nil, "garbage", "decode").Code)
	require.Zero(t, process.Run(t, nil, "", "version").Code)
}

func TestUnknownIsExitThree(t *testing.T) {
	s := newSite(t)
	authority := s.authority("a-1")
	authority.Line("serving")
	s.delivery("d-1").Line("serving")
	authority.Signal(syscall.SIGKILL) // its lease goes on for a while: nobody can tell who is there
	authority.Wait()
	for _, command := range [][]string{{"lookup", "alice"}, {"push", "alice", "-p", "1"}} {
		r := process.Run(t, s.as(deploy.Operator), "", command...)
		require.Equal(t, app.ExitUnknown, r.Code, r.Err)
		require.Regexp(t, `unknown \((unreachable|unowned)\)`, r.Out)
		require.NotContains(t, r.Out, "offline")
	}
	r := process.Run(t, s.as(deploy.Operator), "", "slots")
	require.Equal(t, app.ExitUnknown, r.Code, r.Err)
	require.Contains(t, r.Out, string(schema.SlotUnreachable))
	require.Contains(t, r.Err, "no answer from a-1")
}
