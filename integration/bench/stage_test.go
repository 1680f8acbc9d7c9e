package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// settings are the defaults, but that no route expires and no socket is pinged while it is measured.
func settings() schema.Config {
	c := schema.DefaultConfig()
	c.HeartbeatMS, c.TTLMS = 3_600_000, 4*3_600_000
	return c
}

// stage is a mesh of one server and one authority, and this process as its client.
type stage struct {
	nats, echo, authority *child
	asks                  *nats.Conn // of client, and of nothing else: its counters are the operations'
	raw                   *nats.Conn
	bucket                *lease.Bucket
	view                  *lease.View
	client                *client.Client
	lives                 []*life
	uids                  []schema.UID // who was loaded
}

// life is a gateway as far as an authority can tell: a lease, and a counter.
type life struct {
	me      schema.Process
	seq     atomic.Uint64
	settled atomic.Uint64 // every operation up to it has its answer
	nums    atomic.Uint32
}

func (l *life) next() schema.OwnerSeq { return schema.OwnerSeq(l.seq.Add(1)) }

// settle says that all operations so far have their answers.
func (l *life) settle() { l.settled.Store(l.seq.Load()) }

// newStage starts the processes and waits until every slot is served. flags are more of the
// authority's.
func newStage(b *testing.B, flags ...string) *stage {
	b.Helper()
	s := &stage{}
	s.nats = spawn(b, "nats", b.TempDir())
	s.echo = spawn(b, "echo", s.nats.address)
	maker := connect(b, s.nats.address, deploy.Authority)
	_, err := lease.Open(b.Context(), maker, lease.Options{Create: true, Defaults: settings()})
	require.NoError(b, err)
	s.authority = spawn(b, "rollcall", append([]string{"authority", "--nats", url(s.nats.address, deploy.Authority), "--node", "a-1", "--log-level", "warn"}, flags...)...)

	control := connect(b, s.nats.address, deploy.Gateway)
	s.asks, s.raw = connect(b, s.nats.address, deploy.Gateway), connect(b, s.nats.address, deploy.Operator)
	s.bucket, err = lease.Open(b.Context(), control, lease.Options{})
	require.NoError(b, err)
	s.view = lease.NewView(s.bucket, nil)
	s.client = client.New(s.asks, s.view, client.Config{Settled: s.settled})
	background(b, s.view.Run)
	background(b, s.client.Run)
	until(b, "every slot is ready", s.allReady)
	return s
}

// background runs something until the benchmark ends.
func background(b *testing.B, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
}

// until waits for a state of another process.
func until(b *testing.B, what string, is func() bool) {
	b.Helper()
	poll, late := time.NewTicker(50*time.Millisecond), time.After(60*time.Second)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-late:
			require.Fail(b, "not within a minute: "+what)
		}
	}
}

func (s *stage) allReady() bool {
	t, ok := s.view.Target(0)
	if !ok {
		return false
	}
	report, err := s.client.Status(context.Background(), t.Authority)
	if err != nil || len(report.Slots) != schema.Slots {
		return false
	}
	for _, slot := range report.Slots {
		if slot.State != schema.SlotReady {
			return false
		}
	}
	return true
}

// join takes the leases of n gateways; they have no sockets that a rebuilding slot would wait for.
func (s *stage) join(b *testing.B, n int) {
	b.Helper()
	for i := range n {
		h := lease.NewHolder(s.bucket, s.view, lease.HolderConfig{Role: lease.Gateway, Node: schema.NodeID(fmt.Sprintf("g-%d", i)),
			Describe: func() schema.ProcessValue { return schema.ProcessValue{Since: s.view.Revision()} }})
		born := make(chan *life)
		background(b, func(ctx context.Context) error {
			return h.Run(ctx, func(ctx context.Context, me schema.Process) error {
				born <- &life{me: me}
				<-ctx.Done()
				return nil
			})
		})
		s.lives = append(s.lives, <-born)
	}
}

// settled is the settled mark of a life.
func (s *stage) settled(p schema.Process) schema.OwnerSeq {
	for _, l := range s.lives {
		if l.me == p {
			return schema.OwnerSeq(l.settled.Load())
		}
	}
	return 0
}

// route makes a route of l.
func (l *life) route(uid schema.UID) schema.Route {
	return schema.Route{UID: uid, Owner: l.me, Session: schema.NewSessionNum(l.nums.Add(1), 1), Device: "phone-" + schema.DeviceID(uid[len(uid)-2:]),
		Flag: "app", Level: schema.Master, Listener: "ws", Seq: l.next(), Age: 100 * time.Second, Idle: 3 * time.Second}
}

// name is the i-th user of a family.
func name(family string, i int) schema.UID { return schema.UID(fmt.Sprintf("%s-%07d", family, i)) }

// bySlot sorts routes into their slots.
func bySlot(routes []schema.Route) map[schema.Slot][]schema.Route {
	slots := map[schema.Slot][]schema.Route{}
	for _, r := range routes {
		s := subjects.SlotOf(r.UID)
		slots[s] = append(slots[s], r)
	}
	return slots
}

// load brings n users of a family, a route each, to the authority and gives their routes by slot.
func (s *stage) load(b *testing.B, l *life, family string, n int) map[schema.Slot][]schema.Route {
	b.Helper()
	routes := make([]schema.Route, n)
	for i := range routes {
		routes[i] = l.route(name(family, i))
		routes[i].Order = schema.Order{Fence: 1, N: uint64(i)}
		s.uids = append(s.uids, routes[i].UID)
	}
	slots := bySlot(routes)
	for slot, routes := range slots {
		require.NoError(b, s.sync(slot, l, routes))
	}
	l.settle()
	return slots
}

// sync sends routes of one slot in chunks.
func (s *stage) sync(slot schema.Slot, l *life, routes []schema.Route) error {
	t, err := s.client.Target(context.Background(), slot)
	if err != nil {
		return err
	}
	for len(routes) > 0 {
		chunk := routes[:min(len(routes), schema.MaxSync)]
		routes = routes[len(chunk):]
		answer, err := s.client.Sync(context.Background(), t, l.me, len(routes) == 0, chunk)
		if err != nil {
			return err
		}
		for i, v := range answer.Verdicts {
			if v.Code != schema.CodeOK {
				return fmt.Errorf("sync of %s: %s", chunk[i].UID, v.Code)
			}
		}
	}
	return nil
}

// size is what one request and its answer carry.
type size struct{ request, answer int }

// sizeOf does one operation and gives the mean size of the requests that it made on nc.
func sizeOf(b *testing.B, nc *nats.Conn, a act) size {
	b.Helper()
	before := nc.Stats()
	require.NoError(b, a(1))
	after := nc.Stats()
	out, in := after.OutMsgs-before.OutMsgs, after.InMsgs-before.InMsgs
	require.NotZero(b, out)
	require.NotZero(b, in)
	return size{int((after.OutBytes - before.OutBytes) / out), int((after.InBytes - before.InBytes) / in)}
}

// bare requests the same bytes of echo, one by one.
func (s *stage) bare(size size) act {
	request, subject := make([]byte, size.request), rawSubject(size.answer)
	return func(n int) error {
		for range n {
			if err := request1(s.raw, subject, request); err != nil {
				return err
			}
		}
		return nil
	}
}

func request1(nc *nats.Conn, subject string, request []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := nc.RequestWithContext(ctx, subject, request)
	return err
}

// parallel spreads operations over callers that each do theirs one by one.
func parallel(callers int, one func(caller, i int) error) act {
	return func(n int) error {
		each := max(1, n/callers)
		failed := make(chan error, callers)
		for c := range callers {
			go func() {
				for i := range each {
					if err := one(c, i); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		for range callers {
			if err := <-failed; err != nil {
				return err
			}
		}
		return nil
	}
}
