package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run of the program came to.
type result struct {
	code     int
	out, err string
}

func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := Run(t.Context(), args, strings.NewReader(stdin), &out, &err)
	return result{code, out.String(), err.String()}
}

// failed requires an exit code and one line of error.
func (r result) failed(t *testing.T, code int) string {
	t.Helper()
	require.Equal(t, code, r.code, r.err)
	require.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
	return r.err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}} {
		r := run(t, "", args...)
		require.Equal(t, ExitOK, r.code)
		for _, command := range []string{"demo", "gateway", "authority", "delivery", "all", "lookup", "push", "kick", "sessions", "explain",
			"slots", "nodes", "stats", "events", "watch", "connect", "token", "decode", "config", "version", "setup"} {
			require.Contains(t, r.out, command)
		}
	}
	r := run(t, "", "gateway", "--help")
	require.Equal(t, ExitOK, r.code)
	require.Contains(t, r.out, "ROLLCALL_NODE")
	require.Contains(t, r.out, "--creds")
	for _, command := range []string{"connect", "token", "decode", "version"} {
		require.NotContains(t, run(t, "", command, "--help").out, "--creds", "%s asks nothing of NATS", command)
	}
}

func TestUsageErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":         {[]string{"gateway", "--lisen", ":1"}, "--listen"},
		"unknown command":      {[]string{"gatewy"}, "gateway"},
		"not an address":       {[]string{"gateway", "--listen", "8080"}, "HOST:PORT"},
		"name twice":           {[]string{"gateway", "--auth", "insecure", "--listen", "a=127.0.0.1:1,a=127.0.0.1:2"}, "two listeners"},
		"API without a key":    {[]string{"delivery", "--node", "d", "--api-listen", "127.0.0.1:0"}, "--api-listen takes an --api-key"},
		"API with a short key": {[]string{"all", "--auth", "insecure", "--api-listen", "127.0.0.1:0", "--api-key", "secret"}, "at least 16 characters"},
		"key without API":      {[]string{"delivery", "--node", "d", "--api-key", "0123456789abcdef"}, "--api-listen ADDR"},
		"half a certificate":   {[]string{"delivery", "--node", "d", "--api-listen", "127.0.0.1:0", "--api-key", "0123456789abcdef", "--api-tls-cert", "x"}, "go together"},
		"cache below zero":     {[]string{"delivery", "--node", "d", "--route-cache", "-1"}, "--route-cache"},
		"limit below zero":     {[]string{"gateway", "--auth", "insecure", "--max-rate=-5"}, "--max-rate cannot"},
		"origin with a path":   {[]string{"gateway", "--auth", "insecure", "--origins", "https://app.example.com/"}, "--origins: origin"},
		"origin half a set":    {[]string{"gateway", "--auth", "insecure", "--origins", "app.example.com,[::1]:8080,["}, "--origins: origin \"[\""},
		"inbox of many":        {[]string{"gateway", "--auth", "insecure", "--inbox-prefix", "a.*"}, "--inbox-prefix"},
		"drain below zero":     {[]string{"all", "--auth", "insecure", "--drain-rate=-5"}, "--drain-rate cannot"},
		"insecure to all":      {[]string{"gateway", "--auth", "insecure", "--listen", "0.0.0.0:8080"}, "loopback"},
		"jwt without a key":    {[]string{"gateway"}, "--jwt-key"},
		"bad node":             {[]string{"authority", "--node", "a.1"}, "--node"},
		"bad prefix":           {[]string{"lookup", "--prefix", "a b", "alice"}, "--prefix"},
		"bad uid":              {[]string{"lookup", "a\nb"}, "control character"},
		"no uid":               {[]string{"lookup"}, "uid"},
		"replicas":             {[]string{"authority", "--replicas", "2"}, "replicas"},
		"demo to all":          {[]string{"demo", "--listen", "0.0.0.0:8080"}, "loopback"},
		"demo nats to all":     {[]string{"demo", "--nats-listen", "0.0.0.0:4222"}, "loopback"},
		"creds not there":      {[]string{"lookup", "--creds", "/nowhere", "alice"}, "no such file"},
		"policy":               {[]string{"setup", "--policy", "none", "--nats", "nats://127.0.0.1:1"}, "--policy"},
		"push nothing":         {[]string{"push", "alice"}, "comes last"},
		"push a forgotten one": {[]string{"push", "alice", "bob"}, "comes last"},
		"watch nobody":         {[]string{"watch", "-"}, "at least one"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, run(t, "", c.args...).failed(t, ExitUsage), c.says)
		})
	}
}

func TestNoNATSIsExitFour(t *testing.T) {
	for _, args := range [][]string{{"lookup", "alice"}, {"events"}, {"watch", "alice"}, {"slots"}, {"setup"}} {
		line := run(t, "", append(args, "--nats", "nats://me:secret@127.0.0.1:1")...).failed(t, ExitUnreachable)
		require.Contains(t, line, "127.0.0.1:1")
		require.NotContains(t, line, "secret")
	}
}
