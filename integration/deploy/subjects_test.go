package deploy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// nats.conf spells subjects as text; package subjects is where they come from.
func TestPermissionsAreTheSubjects(t *testing.T) {
	passwords := map[deploy.User]string{}
	for _, u := range deploy.Users() {
		passwords[u] = "secret"
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(deploy.With(t.TempDir(), passwords)), 0o600))
	opts, err := server.ProcessConfigFile(file)
	require.NoError(t, err)

	want := map[string]subjects.Permissions{
		string(deploy.Gateway):   none.GatewayPermissions(),
		string(deploy.Authority): none.AuthorityPermissions(),
		string(deploy.Delivery):  none.DeliveryPermissions(),
		string(deploy.Backend):   none.BackendPermissions(),
	}
	for _, u := range opts.Users {
		p, ok := want[u.Username]
		if !ok {
			continue
		}
		delete(want, u.Username)
		require.ElementsMatch(t, p.Publish, u.Permissions.Publish.Allow, "%s publishes", u.Username)
		require.ElementsMatch(t, p.Subscribe, u.Permissions.Subscribe.Allow, "%s subscribes", u.Username)
	}
	require.Empty(t, want)
}
