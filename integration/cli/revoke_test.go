package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
)

// TestKickByToken with the users of deploy/nats.conf: one of two tokens of a user is revoked.
func TestKickByToken(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600))
	token := func(id string) string {
		r := process.Run(t, nil, "", "token", "alice", "--jwt-key", key, "--token-id", id)
		require.Zero(t, r.Code, r.Err)
		return strings.TrimSpace(r.Out)
	}
	s.authority("a-1").Line("serving")
	s.delivery("d-1").Line("serving")
	gateway := process.StartWith(t, s.as(deploy.Gateway), "gateway", "--node", "gw-1", "--listen", "127.0.0.1:0", "--jwt-key", key)
	url := "ws://" + address(gateway) + "/ws"
	stolen := process.StartWith(t, nil, "connect", "--url", url, "--token", token("stolen"), "--device", "phone")
	stolen.Line("connected to gw-1 as alice")
	good := process.StartWith(t, nil, "connect", "--url", url, "--token", token("good"), "--device", "tablet")
	good.Line("connected to gw-1 as alice")
	r = process.Run(t, s.as(deploy.Backend), "", "kick", "alice", "--token-id", "stolen", "--reason", "lost phone")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "phone")
	require.Contains(t, r.Out, "closed")
	require.NotContains(t, r.Out, "tablet")
	stolen.Line("lost phone")
	require.NotZero(t, stolen.Wait())
	require.True(t, good.Running())
	r = process.Run(t, s.as(deploy.Backend), "", "kick", "alice", "--token-id", "stolen", "--flag", "app")
	require.Equal(t, app.ExitFailed, r.Code)
	require.Contains(t, r.Err, "only uid, device and reason")
	for _, line := range gateway.Said() {
		require.NotContains(t, line, "refuses", "a permission is missing in deploy/nats.conf")
	}
}
