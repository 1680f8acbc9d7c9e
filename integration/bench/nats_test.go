package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// secret is every role's password.
const secret = "bench"

// natsServer runs nats-server on a free port of loopback, configured as deploy/nats.conf says.
// args: the folder of its files.
func natsServer(ctx context.Context, args []string) error {
	passwords := map[deploy.User]string{}
	for _, u := range deploy.Users() {
		passwords[u] = secret
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(deploy.With(args[0], passwords)); err != nil {
		return err
	}
	opts.Host, opts.Port, opts.NoLog, opts.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("not ready in 10 s")
	}
	ready(strings.TrimPrefix(s.ClientURL(), "nats://"))
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// url is how a role reaches the server.
func url(address string, u deploy.User) string {
	return fmt.Sprintf("nats://%s:%s@%s", u, secret, address)
}

// dial connects as a role's processes do.
func dial(address string, u deploy.User, name string) (*nats.Conn, error) {
	options := []nats.Option{nats.Name(name), nats.ReconnectBufSize(-1)}
	if u != deploy.Operator {
		options = append(options, nats.CustomInboxPrefix(subjects.Inbox(string(u))))
	}
	return nats.Connect(url(address, u), options...)
}

func connect(b *testing.B, address string, u deploy.User) *nats.Conn {
	b.Helper()
	nc, err := dial(address, u, "bench/"+string(u))
	require.NoError(b, err)
	b.Cleanup(nc.Close)
	return nc
}

// rawSubject is where echo answers with so many bytes: what a bare request costs.
func rawSubject(answer int) string { return "raw." + strconv.Itoa(answer) }

// echo answers on raw.<n> with n bytes, one subscription and one goroutine, as a bare responder
// does. args: the server's address.
func echo(ctx context.Context, args []string) error {
	nc, err := dial(args[0], deploy.Operator, "echo")
	if err != nil {
		return err
	}
	defer nc.Close()
	room := make([]byte, 1<<20)
	_, err = nc.Subscribe("raw.*", func(m *nats.Msg) {
		_, n, _ := strings.Cut(m.Subject, ".")
		if size, err := strconv.Atoi(n); err == nil {
			m.Respond(room[:size])
		}
	})
	if err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	ready(args[0])
	<-ctx.Done()
	return nil
}
