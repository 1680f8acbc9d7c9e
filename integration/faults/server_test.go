package faults

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// childVariable makes this program a part that tests need: a NATS server, or a crowd.
const childVariable = "ROLLCALL_FAULTS_CHILD"

// secret is every user's password.
const secret = "faults"

// serveNATS is a nats-server as deploy/nats.conf configures it, until a signal ends it. args: name,
// folder of its files, address for clients, its own cluster address and all of the cluster's
// (both may be empty), and whether the account imports disconnect events.
func serveNATS(args []string) error {
	name, store, listen, cluster, peers, events := args[0], args[1], args[2], args[3], args[4], args[5]
	passwords := map[deploy.User]string{}
	for _, u := range deploy.Users() {
		passwords[u] = secret
	}
	text := "server_name: " + name + "\n" + deploy.With(store, passwords)
	if events == "false" {
		const imports = "imports: [{stream:"
		without := strings.Replace(text, imports, "# "+imports, 1)
		if without == text {
			return fmt.Errorf("deploy/nats.conf has no %q", imports)
		}
		text = without
	}
	if cluster != "" {
		text += fmt.Sprintf("cluster { name: rollcall, listen: %q, routes: [%s] }\n", cluster, peers)
	}
	opts := &natsserver.Options{}
	if err := opts.ProcessConfigString(text); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	opts.Host, opts.NoLog = host, true
	// No fault here takes the power away, and what else keeps the disk busy must not hold up leases
	// of three seconds: writes do not wait for it.
	opts.SyncAlways, opts.SyncInterval = false, 0
	if opts.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	s, err := natsserver.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("nats-server %s is not ready", name)
	}
	fmt.Println("ready", name)
	s.WaitForShutdown()
	return nil
}

// server is one NATS server.
type server struct {
	t                            *testing.T
	name, store, listen, cluster string
	peers                        string
	events                       bool
	proc                         *process.Process
}

// newServers starts n servers: one alone, or a cluster.
func newServers(t *testing.T, n int, events bool) []*server {
	t.Helper()
	var all []*server
	var peers []string
	free := freeAddresses(t, 2*n)
	for i := range n {
		s := &server{t: t, name: fmt.Sprintf("n%d", i+1), store: t.TempDir(), listen: free[i], events: events}
		if n > 1 {
			s.cluster = free[n+i]
			peers = append(peers, "nats-route://"+s.cluster)
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.peers = strings.Join(peers, ", ")
		s.start()
	}
	for _, s := range all {
		s.proc.Line("ready")
	}
	return all
}

func (s *server) start() {
	s.t.Helper()
	s.proc = process.StartSelf(s.t, process.Env{childVariable + "=nats"}, "nats-server",
		s.name, s.store, s.listen, s.cluster, s.peers, strconv.FormatBool(s.events))
}

// kill ends a server as a power cut does.
func (s *server) kill() {
	s.t.Helper()
	s.proc.Signal(syscall.SIGKILL)
	s.proc.Wait()
}

// freeAddresses are different ones on which nobody listens at the moment: none is free again before all
// are chosen.
func freeAddresses(t *testing.T, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

// addresses are those of several servers, as a URL list.
func addresses(servers []*server) string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, "nats://"+s.listen)
	}
	return strings.Join(urls, ",")
}

// connect connects this program as a user.
func connect(t *testing.T, servers []*server, u deploy.User, name string) *nats.Conn {
	t.Helper()
	options := []nats.Option{
		nats.Name(name), nats.UserInfo(string(u), secret), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if u != deploy.Operator {
		options = append(options, nats.CustomInboxPrefix(subjects.Inbox(string(u))))
	}
	nc, err := nats.Connect(addresses(servers), options...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}
