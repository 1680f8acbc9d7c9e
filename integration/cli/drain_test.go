package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
)

// TestDrain ends a gateway and an authority from afar, as SIGTERM would: with success, their clients
// told and their slots handed over. Only an operator may.
func TestDrain(t *testing.T) {
	s := newSite(t)
	r := process.Run(t, s.as(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	first := s.authority("both")
	first.Line("serving")
	s.delivery("d-1").Line("serving")
	gateway := s.gateway("both")
	client := process.StartWith(t, nil, "connect", "--url", "ws://"+address(gateway)+"/ws", "--token", "alice", "--device", "phone")
	client.Line("connected to both as alice")

	r = process.Run(t, s.as(deploy.Operator), "", "drain", "nobody")
	require.Equal(t, app.ExitFailed, r.Code)
	require.Contains(t, r.Err, "no process is called nobody")
	r = process.Run(t, s.as(deploy.Operator), "", "drain", "both")
	require.Equal(t, app.ExitUsage, r.Code)
	require.Contains(t, r.Err, "--role")
	r = process.Run(t, s.as(deploy.Backend), "", "drain", "both", "--role", "gateway")
	require.Equal(t, app.ExitFailed, r.Code)
	require.Contains(t, r.Err, "refuses")

	r = process.Run(t, s.as(deploy.Operator), "", "drain", "both", "--role", "gateway")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "both has ended")
	require.Zero(t, gateway.Wait())
	client.Line("going away")
	r = process.Run(t, s.as(deploy.Operator), "", "drain", "both", "--role", "authority")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "both has ended")
	require.Zero(t, first.Wait())
}
