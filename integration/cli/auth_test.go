package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestABackendAuthenticates with the users of deploy/nats.conf: the gateway may ask, a backend may
// answer.
func TestABackendAuthenticates(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	backend, err := nats.Connect("", s.nats.Options(deploy.Backend)...)
	require.NoError(t, err)
	t.Cleanup(backend.Close)
	_, err = backend.Subscribe(subjects.Prefix("").AuthConnect(), func(m *nats.Msg) {
		var call schema.AuthCall
		if json.Unmarshal(m.Data, &call) != nil || call.Token != "good" {
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {"401"}, "Nats-Service-Error": {"who is that"}}})
			return
		}
		_ = m.Respond([]byte(`{"uid":"alice"}`))
	})
	require.NoError(t, err)
	require.NoError(t, backend.Flush())
	s.authority("a-1").Line("serving")
	gateway := process.StartWith(t, s.as(deploy.Gateway), "gateway", "--node", "gw-1", "--listen", "127.0.0.1:0", "--auth", "nats")
	url := "ws://" + address(gateway) + "/ws"
	process.StartWith(t, nil, "connect", "--url", url, "--token", "good", "--device", "phone").Line("connected to gw-1 as alice")
	process.StartWith(t, nil, "connect", "--url", url, "--token", "bad").Line("who is that")
	for _, line := range gateway.Said() {
		require.NotContains(t, line, "refuses", "a permission is missing in deploy/nats.conf")
	}
}
