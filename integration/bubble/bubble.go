package bubble

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Options change the server of a bubble. The zero value is one account without permissions.
type Options struct {
	Config string // a server configuration, as nats-server reads it; listeners in it are not opened
	// Tap is told of each message that a process publishes over a link of the server, as it leaves the
	// process: before any rule, and whether or not the link is cut. It is called by many goroutines,
	// must not block, and must leave the data as it is.
	Tap func(Published)
}

// Published is one message that a process has published.
type Published struct {
	Subject, Reply string
	Data           []byte // without headers
}

// Run runs f in a bubble, with a server that is stopped after f and its cleanups.
func Run(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	RunWith(t, Options{}, f)
}

// RunWith is Run with options.
func RunWith(t *testing.T, o Options, f func(t *testing.T, s *Server)) {
	t.Helper()
	dir := t.TempDir() // outside: removed when the server has let go of it
	runtime.GC()
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{t: t, o: o, dir: dir}
		t.Cleanup(s.end)
		s.Start()
		f(t, s)
	})
}

// Process is something started by Go.
type Process struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// Go runs run on a goroutine. It is stopped and waited for when the test ends; what it returned is
// only looked at by who calls Stop or Wait.
func Go(t *testing.T, run func(ctx context.Context) error) *Process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Process{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	t.Cleanup(func() { p.cancel(); <-p.done })
	return p
}

// Stop ends the process's context and gives what it returned.
func (p *Process) Stop() error {
	p.cancel()
	return p.Wait()
}

// Wait waits until the process has returned by itself, and gives its error.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the process has returned.
func (p *Process) Done() <-chan struct{} { return p.done }

// Until waits in virtual time until cond holds, and fails the test when it does not within d.
func Until(t *testing.T, d time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); !cond(); {
		if !time.Now().Before(deadline) {
			require.FailNow(t, "not in time", "%s: not within %v", what, d)
		}
		time.Sleep(time.Millisecond)
	}
}

// DisconnectEvents is the Config of a server whose account imports the events about ended connections.
const DisconnectEvents = `
system_account: SYS
no_auth_user: any
accounts {
  SYS { users: [{user: system, password: s}], exports: [{stream: "$SYS.ACCOUNT.ROLLCALL.DISCONNECT", accounts: [ROLLCALL]}] }
  ROLLCALL {
    jetstream: enabled
    imports: [{stream: {account: SYS, subject: "$SYS.ACCOUNT.ROLLCALL.DISCONNECT"}, to: "sys.disconnect"}]
    users: [{user: any, password: a}]
  }
}`
