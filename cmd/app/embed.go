package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// NATSConfig says how the nats-server inside this process runs. All else is as in deploy/nats.conf.
type NATSConfig struct {
	Listen       string                 // address for clients; empty: this process's own connections only
	Store        string                 // folder of JetStream's files
	SyncAlways   bool                   // each write waits for the disk, as in production
	OpenOperator bool                   // who gives no credentials is the operator
	Passwords    map[deploy.User]string // those not named are drawn at random
	Log          *slog.Logger           // nil: silence
}

// NATS is a nats-server inside this process.
type NATS struct {
	server    *server.Server
	passwords map[deploy.User]string
}

// natsStart bounds the start of the embedded server: it takes milliseconds on a good disk.
const natsStart = 20 * time.Second

// StartNATS starts a server and returns when it takes connections. End it with Stop.
func StartNATS(c NATSConfig) (*NATS, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := writable(c.Store); err != nil {
		return nil, err
	}
	passwords := make(map[deploy.User]string)
	for _, u := range deploy.Users() {
		if passwords[u] = c.Passwords[u]; passwords[u] == "" {
			passwords[u] = rand.Text()
		}
	}
	opts, err := c.options(passwords)
	if err != nil {
		return nil, err
	}
	if err := free(c.Listen, "--nats-listen"); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	srv.SetLoggerV2(natsLog{c.Log}, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(natsStart) {
		srv.Shutdown()
		return nil, fmt.Errorf("start nats-server: not ready after %v", natsStart)
	}
	return &NATS{server: srv, passwords: passwords}, nil
}

func (c *NATSConfig) options(passwords map[deploy.User]string) (*server.Options, error) {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(deploy.With(c.Store, passwords)); err != nil {
		return nil, fmt.Errorf("configuration of the embedded nats-server: %w", err)
	}
	opts.NoSigs = true
	opts.SyncAlways = c.SyncAlways
	if !c.SyncAlways {
		opts.SyncInterval = 0 // the server's default
	}
	if c.OpenOperator {
		opts.NoAuthUser = string(deploy.Operator)
	}
	if c.Listen == "" {
		opts.DontListen = true
		return opts, nil
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: --nats-listen %q: it takes HOST:PORT", errUsage, c.Listen)
	}
	opts.Host = host
	opts.Port, err = strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("%w: --nats-listen %q: %q is no port number", errUsage, c.Listen, port)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

// URL is where clients reach the server.
func (n *NATS) URL() string { return n.server.ClientURL() }

// Options are those of a connection of u from inside this process.
func (n *NATS) Options(u deploy.User) []nats.Option {
	return []nats.Option{
		nats.InProcessServer(n.server),
		nats.UserInfo(string(u), n.passwords[u]),
		nats.CustomInboxPrefix(subjects.Inbox(string(u))),
	}
}

// Password is that of a user, for processes that are started beside this one.
func (n *NATS) Password(u deploy.User) string { return n.passwords[u] }

// Stop ends the server and waits until it has.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// writable makes a folder and shows that this process may write there.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("folder %s: %w: name one that this user may write", dir, reason(err))
	}
	f, err := os.CreateTemp(dir, ".writable-")
	if err != nil {
		return fmt.Errorf("folder %s: %w: name one that this user may write", dir, reason(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// free tells, in one line, whether an address can be listened on; the empty one always can.
func free(address, flag string) error {
	if address == "" {
		return nil
	}
	l, err := listen(address, flag)
	if err != nil {
		return err
	}
	return l.Close()
}

// listen is net.Listen with an error that names the flag and says what to do.
func listen(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s %s is in use: end the program that listens there, or name another address", flag, address)
	}
	return nil, fmt.Errorf("%s %s: %w", flag, address, reason(err))
}

// reason is the innermost cause of an operating system's error, without the path and the call that
// the caller names in its own words.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// natsLog hands the server's lines to slog, each a level lower: its notices tell of its start, which
// is a detail here, and it warns of passwords in plain text, which are this process's own.
type natsLog struct{ log *slog.Logger }

func (l natsLog) say(level slog.Level, format string, args []any) {
	l.log.Log(context.Background(), level, fmt.Sprintf(format, args...), "from", "nats-server")
}

func (l natsLog) Noticef(format string, args ...any) { l.say(slog.LevelDebug, format, args) }
func (l natsLog) Warnf(format string, args ...any)   { l.say(slog.LevelInfo, format, args) }
func (l natsLog) Errorf(format string, args ...any)  { l.say(slog.LevelWarn, format, args) }
func (l natsLog) Fatalf(format string, args ...any)  { l.say(slog.LevelError, format, args) }
func (l natsLog) Debugf(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l natsLog) Tracef(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
