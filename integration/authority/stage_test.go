package authority_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// part is a process of the mesh: its connection, view and whatever runs on them.
type part struct {
	nc   *nats.Conn
	link *bubble.Link
	b    *lease.Bucket
	view *lease.View
}

func join(t *testing.T, s *bubble.Server, name string) part {
	t.Helper()
	nc, link := s.Dial(name, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectBufSize(-1))
	b, err := lease.Open(t.Context(), nc, lease.Options{Create: true})
	require.NoError(t, err)
	view := lease.NewView(b, nil)
	bubble.Go(t, view.Run)
	<-view.Ready()
	return part{nc: nc, link: link, b: b, view: view}
}

// worker is an authority.
type worker struct {
	part
	*authority.Worker
	run *bubble.Process
}

func startWorker(t *testing.T, s *bubble.Server, node schema.NodeID) *worker {
	t.Helper()
	return startWorkerWith(t, s, authority.Config{Node: node, Fresh: true})
}

func startWorkerWith(t *testing.T, s *bubble.Server, c authority.Config) *worker {
	t.Helper()
	p := join(t, s, "authority/"+string(c.Node))
	w, err := authority.New(p.nc, p.b, p.view, c)
	require.NoError(t, err)
	return &worker{part: p, Worker: w, run: bubble.Go(t, w.Run)}
}

// diary keeps what a worker says in its log, from warnings on, and what it counts.
type diary struct {
	mu    sync.Mutex
	lines strings.Builder
	*prometheus.Registry
}

func newDiary() *diary { return &diary{Registry: prometheus.NewRegistry()} }

func (d *diary) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lines.Write(b)
}

func (d *diary) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// said counts the lines that hold a text.
func (d *diary) said(text string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Count(d.lines.String(), text)
}

// counted gives the sum of a counter over its labels.
func (d *diary) counted(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := d.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rollcall_authority_"+name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// gateway is the part of a gateway that an authority sees: a key, and requests.
type gateway struct {
	part
	*client.Client
	me  schema.Process
	seq schema.OwnerSeq
}

// startGateway waits until every slot has an owner: the gateway has nothing for any of them, as its
// since tells, and no authority waits for its sync.
func startGateway(t *testing.T, s *bubble.Server, node schema.NodeID) *gateway {
	t.Helper()
	g := &gateway{part: join(t, s, "gateway/"+string(node))}
	bubble.Until(t, 2*time.Second, "all slots owned, and nothing missed", func() bool {
		for slot := range schema.Slot(schema.Slots) {
			if target, ok := g.view.Target(slot); !ok || target.Fence > g.view.Revision() {
				return false
			}
		}
		return true
	})
	lives := make(chan schema.Process, 1)
	since := g.view.Revision()
	h := lease.NewHolder(g.b, g.view, lease.HolderConfig{
		Role: lease.Gateway, Node: node,
		Describe: func() schema.ProcessValue { return schema.ProcessValue{Since: since} },
	})
	bubble.Go(t, func(ctx context.Context) error {
		return h.Run(ctx, func(ctx context.Context, me schema.Process) error {
			lives <- me
			<-ctx.Done()
			return nil
		})
	})
	g.me = <-lives
	g.Client = client.New(g.nc, g.view, client.Config{})
	bubble.Go(t, g.Client.Run)
	return g
}

// login registers a route and returns it.
func (g *gateway) login(t *testing.T, uid schema.UID, device schema.DeviceID) schema.Route {
	t.Helper()
	g.seq++
	r := schema.Route{
		UID: uid, Owner: g.me, Session: schema.NewSessionNum(uint32(g.seq), 1),
		Device: device, Flag: "app", Listener: "ws", Seq: g.seq,
	}
	target, ok := g.view.Target(slotOf(uid))
	require.True(t, ok, "slot of %s is owned", uid)
	var result schema.LoginResult
	bubble.Until(t, time.Second, "the authority has heard of the gateway", func() bool {
		var err error
		result, err = g.Register(t.Context(), target, schema.Login{Route: r, Left: 5 * time.Second})
		return !errors.Is(err, schema.ErrRetry)
	})
	require.Equal(t, schema.CodeOK, result.Code)
	r.Order = result.Order
	return r
}

func (g *gateway) state(t *testing.T, uid schema.UID) schema.UserState {
	t.Helper()
	return g.Lookup(t.Context(), []schema.UID{uid})[0].State
}

// slotStatus gives what a worker says of a slot.
func (g *gateway) slotStatus(t *testing.T, w *worker, s schema.Slot) schema.SlotStatus {
	t.Helper()
	said, err := g.Status(t.Context(), w.Me())
	require.NoError(t, err)
	for _, one := range said.Slots {
		if one.Slot == s {
			return one
		}
	}
	return schema.SlotStatus{Slot: s}
}

// deleteKey deletes a slot's key, as an operator may.
func (g *gateway) deleteKey(t *testing.T, s schema.Slot) {
	t.Helper()
	deleted := nats.NewMsg(subjects.Prefix("").BucketKey(subjects.SlotKey(s)))
	deleted.Header.Set("KV-Operation", "DEL")
	_, err := g.nc.RequestMsgWithContext(t.Context(), deleted)
	require.NoError(t, err)
}

// kill ends a worker as SIGKILL does: its connection closes, and nothing is said any more.
func (w *worker) kill() {
	w.nc.Close()
}

// syncAll tells the slot's owner of one route, as the last chunk.
func (g *gateway) syncAll(t *testing.T, r schema.Route) {
	t.Helper()
	g.seq++
	r.Seq = g.seq
	target, err := g.Target(t.Context(), slotOf(r.UID))
	require.NoError(t, err)
	_, err = g.Sync(t.Context(), target, g.me, true, []schema.Route{r})
	require.NoError(t, err)
}

// answerNewFences does what a gateway with one session does: it tells each slot's new owner what it
// has there, unasked.
func (g *gateway) answerNewFences(t *testing.T, r schema.Route) (stop func()) {
	t.Helper()
	var mu sync.Mutex
	told := map[schema.Slot]schema.Target{}
	p := bubble.Go(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			for s := range schema.Slot(schema.Slots) {
				target, ok := g.view.Target(s)
				if !ok || told[s] == target {
					continue
				}
				var routes []schema.Route
				if s == slotOf(r.UID) {
					mu.Lock()
					g.seq++
					r.Seq = g.seq
					mu.Unlock()
					routes = append(routes, r)
				}
				if _, err := g.Sync(ctx, target, g.me, true, routes); err == nil {
					told[s] = target
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	return func() { _ = p.Stop() }
}

func (g *gateway) shares() map[schema.Process]int {
	shares := map[schema.Process]int{}
	for s := range schema.Slot(schema.Slots) {
		if target, ok := g.view.Target(s); ok {
			shares[target.Authority]++
		}
	}
	return shares
}
