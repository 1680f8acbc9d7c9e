package faults

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
)

func (s *stage) units() []*unit {
	return append(append(slices.Clone(s.authorities), s.gateways...), s.delivery)
}

// unit is one process of the mesh, which can be started again under its name.
type unit struct {
	s       *stage
	role    deploy.User
	node    string
	args    []string
	address string // of a gateway
	proc    *process.Process
}

func (s *stage) unit(role deploy.User, node string, args ...string) *unit {
	return &unit{s: s, role: role, node: node, args: append([]string{string(role), "--node", node}, args...)}
}

// start starts the process, or the next one under its name.
func (u *unit) start() {
	u.s.t.Helper()
	servers := addresses(u.s.servers)
	if p := u.s.proxies[u.node]; p != nil {
		servers = "nats://" + p.address()
	}
	u.proc = process.StartWith(u.s.t, u.s.env(u.role, servers), u.args...)
}

// sign is what a process says when it serves.
func (u *unit) sign() string {
	if u.role == deploy.Gateway {
		return "gateway lives"
	}
	return "msg=serving"
}

// kill ends the process with SIGKILL and gives the moment before. The users of a gateway have noticed:
// else they would pass for connected for a moment.
func (u *unit) kill() time.Time {
	u.s.t.Helper()
	at := time.Now()
	u.proc.Signal(syscall.SIGKILL)
	u.proc.Wait()
	if u.role == deploy.Gateway {
		until(u.s.t, patience, "no user is connected to it", func() bool { return connectedOf(u.s.fleet.of(u)) == 0 })
	}
	return at
}

// until waits for a state of other processes.
func until(t *testing.T, most time.Duration, what string, is func() bool) {
	t.Helper()
	process.Eventually(t, most, what, is)
}

// pause lets real time pass: what is tested is what other processes do with it.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.FailNow()
	}
}
