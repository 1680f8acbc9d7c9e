package lease

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix subjects.Prefix = ""

// anyKey matches the subject of every key of the bucket.
var anyKey = prefix.BucketSubjects()

// node is one process of the mesh: a connection, a bucket, a view, and perhaps a holder.
type node struct {
	t      *testing.T
	nc     *nats.Conn
	link   *bubble.Link
	log    *logged
	bucket *lease.Bucket
	view   *lease.View
	role   lease.Role
	name   schema.NodeID
	holder *lease.Holder
	run    *bubble.Process

	mu     sync.Mutex
	lives  []schema.Process
	causes []error       // why each life but the running one ended
	probe  error         // what the next probes give
	linger time.Duration // how long work goes on after its context has ended
}

// join connects a process that makes the bucket if it is an authority, and starts its view.
func join(t *testing.T, s *bubble.Server, role lease.Role, name schema.NodeID) *node {
	t.Helper()
	n := &node{t: t, role: role, name: name, log: &logged{}}
	n.nc, n.link = s.Dial(string(role) + "/" + string(name))
	b, err := lease.Open(t.Context(), n.nc, lease.Options{Prefix: prefix, Create: role == lease.Authority, Memory: true, Log: n.log.logger()})
	require.NoError(t, err)
	n.bucket = b
	n.view = lease.NewView(b, n.log.logger())
	bubbleGo(t, n.view.Run)
	<-n.view.Ready()
	return n
}

// bubbleGo runs run until the test ends; it must then return nil.
func bubbleGo(t *testing.T, run func(context.Context) error) *bubble.Process {
	p := bubble.Go(t, run)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	return p
}

// start begins to hold a lease, without waiting for it.
func (n *node) start() *node {
	n.holder = lease.NewHolder(n.bucket, n.view, lease.HolderConfig{
		Role: n.role, Node: n.name, Log: n.log.logger(),
		Describe: func() schema.ProcessValue { return schema.ProcessValue{Version: "test"} },
		Probe: func(context.Context) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.probe
		},
	})
	n.run = bubble.Go(n.t, func(ctx context.Context) error { return n.holder.Run(ctx, n.work) })
	return n
}

// hold begins to hold a lease and waits for it.
func (n *node) hold() *node {
	n.t.Helper()
	before := len(n.Lives())
	n.start()
	bubble.Until(n.t, 3*time.Minute, string(n.name)+" has its lease", func() bool { return len(n.Lives()) > before })
	return n
}

// work is a life: it answers the question whether it is there, and remembers why it ended.
func (n *node) work(ctx context.Context, me schema.Process) error {
	subject := prefix.Kick(me)
	if n.role == lease.Authority {
		subject = prefix.Authority(me, subjects.Lookup)
	}
	sub, err := n.nc.Subscribe(subject, func(m *nats.Msg) { m.Respond(nil) })
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	n.mu.Lock()
	n.lives = append(n.lives, me)
	n.mu.Unlock()
	<-ctx.Done()
	n.mu.Lock()
	n.causes = append(n.causes, context.Cause(ctx))
	n.mu.Unlock()
	time.Sleep(n.linger)
	return nil
}

func (n *node) Lives() []schema.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]schema.Process(nil), n.lives...)
}

func (n *node) Causes() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]error(nil), n.causes...)
}

func (n *node) me() schema.Process {
	lives := n.Lives()
	return lives[len(lives)-1]
}

func (n *node) setProbe(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probe = err
}

var errWedged = errors.New("wedged")

// member gives how another node's view shows n, and whether it does.
func (n *node) member(in *lease.View) (lease.Member, bool) {
	for _, m := range in.Members(n.role) {
		if m.Process.Node == n.name {
			return m, true
		}
	}
	return lease.Member{}, false
}

// crash cuts a node off for good, as kill -9 does: its connection breaks and nothing is resigned.
func (n *node) crash() {
	n.link.Cut()
	n.link.Reset()
}

// logged keeps what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logged) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}
