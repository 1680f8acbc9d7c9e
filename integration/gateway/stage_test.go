package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority"
	asker "github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mesh is what a test sees of the mesh from outside: it asks, pushes and kicks.
type mesh struct {
	t    *testing.T
	s    *bubble.Server
	nc   *nats.Conn
	view *lease.View
	*asker.Client
	payload string // of what it pushes
}

// newMesh starts authorities, and waits until every slot has an owner.
func newMesh(t *testing.T, s *bubble.Server, authorities ...schema.NodeID) *mesh {
	t.Helper()
	for _, node := range authorities {
		startAuthority(t, s, node)
	}
	nc, _ := s.Dial("test")
	_, view := join(t, nc)
	m := &mesh{t: t, s: s, nc: nc, view: view, Client: asker.New(nc, view, asker.Config{}), payload: `"hi"`}
	bubble.Go(t, m.Run)
	bubble.Until(t, 10*time.Second, "all slots owned", func() bool {
		if len(authorities) == 0 {
			return true
		}
		for n := range schema.Slot(schema.Slots) {
			if _, ok := view.Target(n); !ok {
				return false
			}
		}
		return true
	})
	return m
}

// join opens the bucket. An offline is told at once here: a grace would hide one that is invented.
func join(t *testing.T, nc *nats.Conn) (*lease.Bucket, *lease.View) {
	t.Helper()
	settings := schema.DefaultConfig()
	settings.GraceMS = 0
	b, err := lease.Open(t.Context(), nc, lease.Options{Create: true, Defaults: settings})
	require.NoError(t, err)
	view := lease.NewView(b, nil)
	bubble.Go(t, view.Run)
	<-view.Ready()
	return b, view
}

// process is one that a test can stop, cut off, or kill.
type process struct {
	run  *bubble.Process
	link *bubble.Link
}

func startAuthority(t *testing.T, s *bubble.Server, node schema.NodeID) process {
	t.Helper()
	nc, link := s.Dial("authority/" + string(node))
	b, view := join(t, nc)
	w, err := authority.New(nc, b, view, authority.Config{Node: node, Fresh: true})
	require.NoError(t, err)
	return process{bubble.Go(t, w.Run), link}
}

// gate is a gateway.
type gate struct {
	process
	*gateway.Gateway
	ln   *bubble.Listener
	push *bubble.Link
}

// startGateway starts a gateway and waits until it serves.
func startGateway(t *testing.T, s *bubble.Server, node schema.NodeID) *gate {
	t.Helper()
	g := newGate(t, s, node)
	g.run = bubble.Go(t, g.Run)
	bubble.Until(t, 5*time.Second, "gateway ready", func() bool { return g.Ready() == nil })
	return g
}

// newGate makes a gateway that the test runs.
func newGate(t *testing.T, s *bubble.Server, node schema.NodeID) *gate {
	t.Helper()
	g := &gate{ln: bubble.Listen(t)}
	control, link := s.Dial("gateway/" + string(node) + "/control")
	push, pushLink := s.Dial("gateway/" + string(node) + "/push")
	b, view := join(t, control)
	c := gateway.Config{Node: node, Listeners: []gateway.Listener{{Name: "ws", Listener: g.ln}}, Auth: gateway.Insecure{}}
	var err error
	g.Gateway, err = gateway.New(gateway.Conns{Control: control, Push: push}, b, view, c)
	require.NoError(t, err)
	g.link, g.push = link, pushLink
	return g
}

// device is a client that stays connected as long as it may.
type device struct {
	t *testing.T
	*client.Client
	run  *bubble.Process
	link *bubble.Link

	mu       sync.Mutex
	messages []client.Message
	users    map[schema.UID]schema.WatchedUser
}

// connect starts a client without waiting for its login.
func (g *gate) connect(t *testing.T, uid schema.UID, id schema.DeviceID, change ...func(*client.Config)) *device {
	t.Helper()
	d := &device{t: t, link: bubble.NewClient(), users: make(map[schema.UID]schema.WatchedUser)}
	transport := &http.Transport{DialContext: d.link.DialTo(g.ln)}
	c := client.Config{
		URL: "ws://gateway/ws", Token: client.FixedToken(string(uid)), Device: id,
		HTTPClient: &http.Client{Transport: transport}, OnMessage: d.take, OnPresence: d.see,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	d.Client, err = client.New(c)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	d.run = bubble.Go(t, d.Run)
	return d
}

// login starts a client and waits for its login.
func (g *gate) login(t *testing.T, uid schema.UID, id schema.DeviceID, change ...func(*client.Config)) *device {
	t.Helper()
	d := g.connect(t, uid, id, change...)
	d.ready()
	return d
}

func (d *device) ready() client.Session {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(d.t, d.Ready(ctx))
	info, ok := d.Session()
	require.True(d.t, ok)
	return info
}

func (d *device) take(m client.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.messages = append(d.messages, m)
}

func (d *device) see(users []schema.WatchedUser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range users {
		d.users[u.UID] = u
	}
}

func (d *device) got() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.messages)
}

func (d *device) sees(u schema.UID) schema.WatchedUser {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users[u]
}

// stopped waits until the client stops by itself, and gives the code that made it.
func (d *device) stopped() schema.CloseCode {
	d.t.Helper()
	err := d.run.Wait()
	require.ErrorIs(d.t, err, client.ErrStopped)
	lost, ok := errors.AsType[*client.LostError](err)
	require.True(d.t, ok, "%v", err)
	return lost.Code
}

// find looks one uid up.
func (m *mesh) find(uid schema.UID) asker.Found {
	return m.Lookup(context.Background(), []schema.UID{uid})[0]
}

// pushTo pushes one message to the routes of a uid, and gives the results.
func (m *mesh) pushTo(uid schema.UID, id string) []schema.PushResult {
	m.t.Helper()
	var results []schema.PushResult
	for _, r := range m.find(uid).Routes {
		results = append(results, m.pushOne(r, id))
	}
	return results
}

func (m *mesh) pushOne(r schema.Route, id string) schema.PushResult {
	m.t.Helper()
	result, err := m.tryPush(r, id)
	require.NoError(m.t, err)
	return result
}

func (m *mesh) tryPush(r schema.Route, id string) (schema.PushResult, error) {
	m.t.Helper()
	req := &schema.Push{To: r.Owner, Frames: []schema.PushFrame{{
		ID: id, From: "test", Payload: []byte(m.payload), Recipients: []schema.Recipient{{UID: r.UID, Session: r.Session, Seq: r.Seq}},
	}}}
	data, err := schema.Marshal(req)
	require.NoError(m.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	msg, err := m.nc.RequestWithContext(ctx, subjects.Prefix("").Push(r.Owner), data)
	if errors.Is(err, nats.ErrNoResponders) {
		return schema.PushOwnerGone, nil
	}
	if err != nil {
		return schema.PushUnknown, err
	}
	var answer schema.PushAnswer
	require.NoError(m.t, schema.Unmarshal(msg.Data, &answer))
	require.Equal(m.t, schema.CodeOK, answer.Code, answer.Why)
	return answer.Results[0], nil
}
