package process

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// natsVariable has a test program be a NATS server; it names the folder of JetStream's files.
const natsVariable = "ROLLCALL_TEST_NATS"

// NATS is a nats-server with the users, permissions and limits of deploy/nats.conf, in a process of
// its own. Only its writes do not wait for the disk: no test takes the power away, and another
// program that keeps the disk busy must not hold up leases of a few seconds.
type NATS struct {
	*Process
	URL       string
	passwords map[deploy.User]string
}

// StartNATS starts a server: this test program once more, in another role.
func StartNATS(t *testing.T) *NATS {
	t.Helper()
	n := &NATS{passwords: make(map[deploy.User]string)}
	env := Env{natsVariable + "=" + t.TempDir()}
	for _, u := range deploy.Users() {
		n.passwords[u] = rand.Text()
		env = append(env, u.PasswordVariable()+"="+n.passwords[u])
	}
	n.Process = StartSelf(t, env, "nats-server")
	_, n.URL, _ = strings.Cut(n.Line(listens), listens)
	return n
}

// As gives the variables with which a process is a user of the server.
func (n *NATS) As(u deploy.User) Env {
	return Env{"ROLLCALL_NATS=" + n.URL, "ROLLCALL_USER=" + string(u), "ROLLCALL_PASSWORD=" + n.passwords[u]}
}

// Connect connects the test itself as a user of the server, until the test ends.
func (n *NATS) Connect(u deploy.User) *nats.Conn {
	n.t.Helper()
	nc, err := nats.Connect(n.URL, nats.UserInfo(string(u), n.passwords[u]), nats.CustomInboxPrefix(subjects.Inbox(string(u))))
	require.NoError(n.t, err)
	n.t.Cleanup(nc.Close)
	return nc
}

// listens is what the server's process says before its address.
const listens = "nats-server listens on "

// runNATS is the server's process. It gives the exit code.
func runNATS(store string) int {
	passwords := make(map[deploy.User]string)
	for _, u := range deploy.Users() {
		passwords[u] = os.Getenv(u.PasswordVariable())
	}
	n, err := app.StartNATS(app.NATSConfig{Listen: "127.0.0.1:0", Store: store, Passwords: passwords})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer n.Stop()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	fmt.Println(listens + n.URL())
	<-end
	return 0
}
