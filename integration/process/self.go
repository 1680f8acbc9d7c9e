package process

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartSelf starts the test's own program once more; env tells its TestMain what it is to be. name is
// what it is called in the log.
func StartSelf(t *testing.T, env Env, name string, args ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return start(t, name, exec.Command(self, args...), env)
}
