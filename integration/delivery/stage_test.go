package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mesh is a server with an authority and a Delivery.
type mesh struct {
	*delivery.Delivery
	t      *testing.T
	server *bubble.Server
	nc     *nats.Conn // Delivery's
	link   *bubble.Link
	worker *bubble.Link // the authority's
	seen   *lease.View
}

// run runs a test in a bubble, on a mesh whose slots are all served.
func run(t *testing.T, test func(t *testing.T, m *mesh)) {
	t.Helper()
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := &mesh{t: t, server: s}
		nc, link := s.Dial("authority/a-1")
		m.worker = link
		b, view := open(t, nc)
		m.seen = view
		w, err := authority.New(nc, b, view, authority.Config{Node: "a-1", Fresh: true})
		require.NoError(t, err)
		bubble.Go(t, w.Run)
		bubble.Until(t, 5*time.Second, "all slots owned", func() bool { return m.owned() == schema.Slots })
		m.nc, m.link = s.Dial("delivery/d-1")
		m.Delivery = newDelivery(t, m.nc)
		bubble.Until(t, 5*time.Second, "delivery knows", func() bool {
			found, err := m.Lookup(t.Context(), []schema.UID{"nobody"})
			return err == nil && found[0].State == schema.Offline
		})
		test(t, m)
	})
}

func newDelivery(t *testing.T, nc *nats.Conn, options ...delivery.Option) *delivery.Delivery {
	t.Helper()
	d, err := delivery.New(nc, options...)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return d
}

func open(t *testing.T, nc *nats.Conn) (*lease.Bucket, *lease.View) {
	t.Helper()
	b, err := lease.Open(t.Context(), nc, lease.Options{Create: true})
	require.NoError(t, err)
	view := lease.NewView(b, nil)
	bubble.Go(t, view.Run)
	<-view.Ready()
	return b, view
}

func (m *mesh) owned() (n int) {
	for s := range schema.Slot(schema.Slots) {
		if _, ok := m.seen.Target(s); ok {
			n++
		}
	}
	return n
}

// gateway is the part of a gateway that others see.
type gateway struct {
	me     schema.Process
	client *client.Client
	view   *lease.View
	link   *bubble.Link
	run    *bubble.Process // its lease

	mu     sync.Mutex
	seq    schema.OwnerSeq
	result func(f *schema.PushFrame, r schema.Recipient) schema.PushResult // default: written
	silent bool                                                            // it answers neither push nor kick
	kicked func(e schema.KickEntry) schema.Code                            // default: ok
	got    []string                                                        // "id>uid#session" of what was pushed
	msgs   []int                                                           // recipients of each message
	kicks  []schema.KickEntry
}

// gateway starts a gateway under a name.
func (m *mesh) gateway(node schema.NodeID) *gateway {
	t := m.t
	t.Helper()
	nc, link := m.server.Dial("gateway/" + string(node))
	b, view := open(t, nc)
	g := &gateway{view: view, link: link}
	lives := make(chan schema.Process, 8)
	since := view.Revision()
	h := lease.NewHolder(b, view, lease.HolderConfig{Role: lease.Gateway, Node: node, Describe: func() schema.ProcessValue {
		return schema.ProcessValue{State: schema.StateServing, Since: since, Addresses: []string{"ws://" + string(node)}}
	}})
	g.run = bubble.Go(t, func(ctx context.Context) error {
		return h.Run(ctx, func(ctx context.Context, me schema.Process) error {
			lives <- me
			<-ctx.Done()
			return nil
		})
	})
	g.me = <-lives
	g.client = client.New(nc, view, client.Config{})
	bubble.Go(t, g.client.Run)
	answer(t, nc, subjects.Prefix("").Push(g.me), g.push)
	answer(t, nc, subjects.Prefix("").Kick(g.me), g.kick)
	return g
}

func answer(t *testing.T, nc *nats.Conn, subject string, f func(data []byte) schema.Message) {
	t.Helper()
	_, err := nc.Subscribe(subject, func(msg *nats.Msg) {
		reply := f(msg.Data)
		if reply == nil {
			return
		}
		data, err := schema.Marshal(reply)
		if err != nil {
			panic(err)
		}
		_ = msg.Respond(data)
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
}

func (g *gateway) push(data []byte) schema.Message {
	var m schema.Push
	if err := schema.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &schema.PushAnswer{ProcessHead: schema.ProcessHead{From: g.me}}
	for i := range m.Frames {
		f := &m.Frames[i]
		for _, r := range f.Recipients {
			g.got = append(g.got, fmt.Sprintf("%s>%s#%d", f.ID, r.UID, r.Session.Index()))
			result := schema.PushWritten
			if g.result != nil {
				result = g.result(f, r)
			}
			a.Results = append(a.Results, result)
		}
	}
	g.msgs = append(g.msgs, len(a.Results))
	if g.silent {
		return nil
	}
	return a
}

func (g *gateway) kick(data []byte) schema.Message {
	var m schema.Kick
	if err := schema.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &schema.KickAnswer{ProcessHead: schema.ProcessHead{From: g.me}}
	for _, e := range m.Entries {
		g.kicks = append(g.kicks, e)
		code := schema.CodeOK
		if g.kicked != nil {
			code = g.kicked(e)
		}
		a.Results = append(a.Results, code)
	}
	if g.silent {
		return nil
	}
	return a
}

// set changes how a gateway behaves.
func (g *gateway) set(change func(g *gateway)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gateway) pushed() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.got...)
}

// login makes a session and gives its route.
func (g *gateway) login(t *testing.T, uid schema.UID, device schema.DeviceID, flag schema.Flag) schema.Route {
	t.Helper()
	g.mu.Lock()
	g.seq++
	seq := g.seq
	g.mu.Unlock()
	r := schema.Route{UID: uid, Owner: g.me, Session: schema.NewSessionNum(uint32(seq), 1), Device: device, Flag: flag, Listener: "ws", Seq: seq}
	target, err := g.client.Target(t.Context(), subjects.SlotOf(uid))
	require.NoError(t, err)
	var result schema.LoginResult
	bubble.Until(t, time.Second, "the authority knows the gateway", func() bool {
		result, err = g.client.Register(t.Context(), target, schema.Login{Route: r, Left: 5 * time.Second})
		return !errors.Is(err, schema.ErrRetry)
	})
	require.NoError(t, err)
	require.Equal(t, schema.CodeOK, result.Code, result.Why)
	r.Order = result.Order
	return r
}

func (r *gateway) name(s schema.Route) schema.SessionID { return s.Session.Outside(r.me.Boot) }
