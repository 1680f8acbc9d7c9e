package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// patience bounds what should happen at once, on a busy machine.
const patience = 20 * time.Second

// quick are settings at a tenth of the defaults: a bucket is young for 3 s, and its slots are ready
// half a second after they were claimed.
var quick = []string{"--lease", "3s", "--heartbeat", "3s", "--ttl", "9s", "--grace", "0"}

// steady has leases that outlast what a busy machine does to a process, and what a test does in
// between; the rest is as by default.
var steady = []string{"--lease", "6s"}

// mesh is a mesh of processes, and this one as a backend.
type mesh struct {
	t           *testing.T
	nats        *process.NATS
	authorities []*process.Process
	gateways    []*gateway
	backend     *nats.Conn
	made        time.Time // when the bucket was

	devices context.Context // ends with the test
	running sync.WaitGroup  // the devices
}

// gateway is a gateway's process, and where clients reach it.
type gateway struct {
	*process.Process
	node    string
	address string
}

// newMesh starts two authorities, two gateways and the service, and waits until the slots are shared
// out and every one can tell who is there. setup are flags of `rollcall setup`, which comes before all.
func newMesh(t *testing.T, setup ...string) *mesh {
	t.Helper()
	m := &mesh{t: t, nats: process.StartNATS(t)}
	r := process.Run(t, m.nats.As(deploy.Operator), "", append([]string{"setup"}, setup...)...)
	require.Zero(t, r.Code, r.Err)
	m.made = time.Now()
	for _, node := range []string{"a-1", "a-2"} {
		m.authorities = append(m.authorities, process.StartWith(t, m.nats.As(deploy.Authority), "authority", "--node", node))
	}
	for _, node := range []string{"gw-1", "gw-2"} {
		m.gateways = append(m.gateways, m.startGateway(node, "127.0.0.1:0"))
	}
	process.StartWith(t, m.nats.As(deploy.Delivery), "delivery", "--node", "d-1").Line("serving")
	for _, g := range m.gateways {
		g.serves()
	}
	m.backend = m.nats.Connect(deploy.Backend)
	ctx, cancel := context.WithCancel(context.Background())
	m.devices = ctx
	t.Cleanup(func() { cancel(); m.running.Wait() })
	m.eventually("the slots are shared out and ready", m.even)
	return m
}

// even reports whether each authority holds its share of the slots, and can tell who is there.
func (m *mesh) even() bool {
	m.t.Helper()
	shares := make(map[schema.NodeID]int)
	for _, s := range m.slots() {
		if s.State == schema.SlotReady {
			shares[s.Owner]++
		}
	}
	return shares["a-1"] == schema.Slots/2 && shares["a-2"] == schema.Slots/2
}

func (m *mesh) startGateway(node, listen string, args ...string) *gateway {
	return &gateway{node: node, Process: process.StartWith(m.t, m.nats.As(deploy.Gateway),
		append([]string{"gateway", "--node", node, "--listen", listen, "--auth", "insecure"}, args...)...)}
}

// serves waits until the gateway takes clients.
func (g *gateway) serves() {
	_, g.address, _ = strings.Cut(g.Line("gateway listens"), "at=")
	g.Line("gateway lives")
}

// eventually waits for what should become so at once.
func (m *mesh) eventually(what string, is func() bool) {
	m.t.Helper()
	process.Eventually(m.t, patience, what, is)
}

// ask calls the service as a backend of any language does.
func ask[Reply any](m *mesh, what string, call any) (Reply, error) {
	var reply Reply
	data, err := json.Marshal(call)
	if err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := m.backend.RequestWithContext(ctx, subjects.Prefix("").ServiceCall(what), data)
	if err != nil {
		return reply, fmt.Errorf("%s: %w", what, err)
	}
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		return reply, fmt.Errorf("%s: %s %s", what, code, answer.Header.Get(micro.ErrorHeader))
	}
	return reply, json.Unmarshal(answer.Data, &reply)
}

func (m *mesh) slots() []schema.SlotStatus {
	m.t.Helper()
	reply, err := ask[schema.SlotsReply](m, "slots", struct{}{})
	require.NoError(m.t, err)
	return reply.Slots
}

// lookup looks up any number of users: what did not fit an answer is asked for again.
func (m *mesh) lookup(uids []schema.UID) ([]schema.UserReply, error) {
	var all []schema.UserReply
	for len(all) < len(uids) {
		rest := uids[len(all):]
		reply, err := ask[schema.LookupReply](m, "lookup", schema.LookupCall{UIDs: rest[:min(len(rest), schema.MaxCallUIDs)]})
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Results...)
	}
	return all, nil
}

// found is lookup where nothing may go wrong.
func (m *mesh) found(uids []schema.UID) []schema.UserReply {
	m.t.Helper()
	users, err := m.lookup(uids)
	require.NoError(m.t, err)
	require.Len(m.t, users, len(uids))
	return users
}

// push pushes to any number of users, and gives what became of it for each.
func (m *mesh) push(call schema.PushCall) ([]schema.PushedReply, error) {
	var all []schema.PushedReply
	uids := call.UIDs
	for len(all) < len(uids) {
		rest := uids[len(all):]
		call.UIDs = rest[:min(len(rest), schema.MaxCallUIDs)]
		reply, err := ask[schema.PushReply](m, "push", call)
		if err != nil {
			return nil, err
		}
		all = append(all, reply.Results...)
	}
	return all, nil
}

// inParallel does something n times, at most width at a time, and gives the first error.
func inParallel(n, width int, act func(i int) error) error {
	failed := make(chan error, n)
	turns := make(chan struct{}, width)
	for i := range n {
		turns <- struct{}{}
		go func() {
			failed <- act(i)
			<-turns
		}()
	}
	var first error
	for range n {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}
