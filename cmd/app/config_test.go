package app

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway"
)

// node gives the node name that the settings of a gateway come to.
func nodeOf(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, "", args...)
	require.Equal(t, ExitOK, r.code, r.err)
	for line := range strings.Lines(r.out) {
		if rest, ok := strings.CutPrefix(line, "node: "); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	require.FailNow(t, "no node", r.out)
	return ""
}

func TestCommandLineThenEnvironmentThenFile(t *testing.T) {
	file := write(t, "c.yaml", "node: top\ngateway:\n  node: section\n")
	require.Equal(t, `"" # default, $ROLLCALL_NODE`, nodeOf(t, "config", "print", "gateway"))
	require.Equal(t, "section # config file", nodeOf(t, "--config", file, "config", "print", "gateway"))
	require.Equal(t, "top # config file", nodeOf(t, "--config", file, "config", "print", "authority"))
	require.Equal(t, "top # config file", nodeOf(t, "config", "print", "authority", "--config", file))
	t.Setenv("ROLLCALL_NODE", "env")
	require.Equal(t, "env # $ROLLCALL_NODE", nodeOf(t, "--config", file, "config", "print", "gateway"))
	require.Equal(t, "flag # --node", nodeOf(t, "--config", file, "config", "print", "gateway", "--node", "flag"))
	t.Setenv("ROLLCALL_NODE", "")
	t.Setenv("ROLLCALL_CONFIG", file)
}

func TestConfigFileByEnvironment(t *testing.T) {
	t.Setenv("ROLLCALL_CONFIG", write(t, "c.json", `{"gateway": {"node": "json"}}`))
	require.Equal(t, "json # config file", nodeOf(t, "config", "print", "gateway"))
}

func TestConfigPrintIsAConfigFile(t *testing.T) {
	args := []string{"config", "print", "gateway", "--node", "gw-1", "--listen", "a=127.0.0.1:1,127.0.0.1:2", "--nats", "nats://u:pw@h:1",
		"--password", "hidden", "--max-rate", "7", "--watch-off", "--drain-wait", "2s"}
	r := run(t, "", args...)
	require.Equal(t, ExitOK, r.code, r.err)
	require.NotContains(t, r.out, "hidden")
	require.NotContains(t, r.out, "pw")
	require.Regexp(t, `max-burst: 1000 +# default`, r.out, "what holds, not a 0 that stands for it")
	again := run(t, "", "--config", write(t, "c.yaml", r.out), "config", "print", "gateway")
	require.Equal(t, ExitOK, again.code, again.err)
	require.Equal(t, settings(r.out), settings(again.out))
}

// settings are the lines without their comments.
func settings(out string) []string {
	var list []string
	for line := range strings.Lines(out) {
		setting, _, _ := strings.Cut(line, "#")
		list = append(list, strings.TrimSpace(setting))
	}
	return list
}

func TestConfigCheck(t *testing.T) {
	good := write(t, "good.yaml", "nats: [nats://a:1, nats://b:1]\ngateway:\n  auth: insecure\n  listen: 127.0.0.1:0\n  max_rate: 3\n")
	require.Equal(t, good+": ok\n", run(t, "", "config", "check", good).out)
	for text, says := range map[string]string{
		"nats: x\ngateway:\n  lisen: y\n":                    `:3: unknown setting "lisen"`,
		"nodes: x":                                           `:1: unknown setting "nodes"`,
		"gateway:\n  max-rate: many\n":                       "max-rate",
		"gateway:\n  auth: insecure\n  listen: 0.0.0.0:80\n": "loopback",
		"gateway:\n  listen:\n    - {a: b}\n":                "plain values",
		"just text":                                          "name: value",
		"gateway: {listen: \"unclosed}":                      "yaml",
		"authority:\n  node: a.1\n":                          "--node",
		"authority:\n  replicas: 2\n":                        "replicas",
	} {
		line := run(t, "", "config", "check", write(t, "bad.yaml", text)).failed(t, ExitUsage)
		require.Contains(t, line, says, text)
	}
	require.Contains(t, run(t, "", "config", "check").failed(t, ExitUsage), "name a file")
	require.Contains(t, run(t, "", "config", "check", "/nowhere.yaml").failed(t, ExitUsage), "no such file")
}

// Each limit has a flag of its own; what they say by default is what package gateway documents.
func TestLimitsOfFlags(t *testing.T) {
	limits := func(args ...string) gateway.Limits {
		p, err := parse(append([]string{"gateway"}, args...), io.Discard, io.Discard)
		require.NoError(t, err)
		return p.cli.Gateway.Limits.limits()
	}
	require.Equal(t, gateway.Limits{
		MaxBytes: 64 << 10, Sessions: 200_000, Handshakes: 8192, HandshakesPerAddr: 128, QueueFrames: 512, QueueBytes: 1 << 20,
		Rate: 200, Burst: 1000, SendsInFlight: 16, SendTimeout: 5 * time.Second, Watches: 1000,
	}, limits())
	require.Equal(t, gateway.Limits{
		MaxBytes: 1, Sessions: 2, Handshakes: 3, HandshakesPerAddr: 4, QueueFrames: 5, QueueBytes: 6, Rate: 7, Burst: 8, SendsInFlight: 9,
		SendTimeout: 10, Watches: 11,
	}, limits("--max-frame-bytes=1", "--max-connections=2", "--max-handshakes=3", "--max-handshakes-per-addr=4", "--max-queue-frames=5",
		"--max-queue-bytes=6", "--max-rate=7", "--max-burst=8", "--max-sends=9", "--max-send-wait=10ns", "--max-watches=11"))
}
