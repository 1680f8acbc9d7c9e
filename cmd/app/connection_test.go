package app

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestInboxFollowsTheUser(t *testing.T) {
	for _, c := range []struct {
		connection Connection
		role       deploy.User
		want       string
	}{
		{Connection{}, deploy.Gateway, "_INBOX_gateway"},
		{Connection{}, deploy.Operator, ""},
		{Connection{User: "backend"}, deploy.Operator, "_INBOX_backend"},
		{Connection{NATS: []string{"nats://delivery:pw@h:1"}}, deploy.Operator, "_INBOX_delivery"},
		{Connection{User: "operator"}, deploy.Gateway, ""},
		{Connection{User: "someone"}, deploy.Authority, "_INBOX_authority"},
		{Connection{Inbox: "mine", User: "backend"}, deploy.Gateway, "mine"},
		{Connection{Context: "prod"}, deploy.Operator, ""},
	} {
		require.Equal(t, c.want, c.connection.inbox(c.role), c.connection)
	}
}

func TestAPasswordAloneIsThatOfTheRole(t *testing.T) {
	for _, c := range []struct {
		connection Connection
		want       string
	}{
		{Connection{}, ""},
		{Connection{Password: "pw"}, "gateway"},
		{Connection{Password: "pw", User: "backend"}, "backend"},
		{Connection{Password: "pw", Context: "prod"}, ""},
		{Connection{Password: "pw", Creds: "connection_test.go"}, ""},
		{Connection{Password: "pw", NATS: []string{"nats://operator:pw@h:1"}}, ""}, // the URL's own
	} {
		d, err := c.connection.dialer(deploy.Gateway)
		require.NoError(t, err)
		var o nats.Options
		for _, set := range d.options {
			require.NoError(t, set(&o))
		}
		require.Equal(t, c.want, o.User, c.connection)
	}
}

func TestContextOfTheNATSCLI(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lab.json"), []byte(`{"url":"nats://127.0.0.1:2"}`), 0o600))
	t.Setenv("NATS_CONTEXT", "lab")
	require.Contains(t, run(t, "", "slots").failed(t, ExitUnreachable), "context lab")
	t.Setenv("NATS_CONTEXT", "other")
	require.Contains(t, run(t, "", "slots").failed(t, ExitUsage), "other")
	t.Setenv("NATS_CONTEXT", "")
	t.Setenv("NATS_URL", "nats://127.0.0.1:3")
	require.Contains(t, run(t, "", "slots").failed(t, ExitUnreachable), "127.0.0.1:3")
}

func TestListeners(t *testing.T) {
	var list []Listener
	for _, text := range []string{"127.0.0.1:1", "inside=10.0.0.1:2", "[::1]:3"} {
		var l Listener
		require.NoError(t, l.UnmarshalText([]byte(text)))
		back, err := l.MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(back))
		list = append(list, l)
	}
	list, err := named(list)
	require.NoError(t, err)
	require.Equal(t, []schema.Listener{"ws", "inside", "ws3"}, []schema.Listener{list[0].Name, list[1].Name, list[2].Name})
	require.True(t, loopback("127.0.0.1:1") && loopback("[::1]:3") && loopback("localhost:1"))
	require.False(t, loopback("10.0.0.1:2") || loopback(":80") || loopback("0.0.0.0:1") || loopback("example.com:1"))
}
