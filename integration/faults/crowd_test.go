package faults

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// crowdName is the i-th user of the g-th gateway of a crowd.
func crowdName(g, i int) schema.UID { return schema.UID(fmt.Sprintf("crowd-%d-%d", g, i)) }

// serveCrowd is a process of gateways whose sessions have no sockets: a million of those would not
// fit a machine. They hold leases, tell every new owner of their sessions and touch them, as a
// gateway does, until a signal ends them. args: the servers, how many gateways, sessions of each.
func serveCrowd(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	sessions, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var running, told sync.WaitGroup
	failed := make(chan error, count)
	for g := range count {
		told.Add(1)
		running.Go(func() { failed <- (&herd{number: g}).run(ctx, args[0], sessions, told.Done) })
	}
	go func() { // ends with the process
		told.Wait()
		fmt.Fprintln(os.Stdout, "ready crowd")
	}()
	running.Wait()
	return <-failed
}

// herd is one gateway of a crowd.
type herd struct {
	// static
	number int
	me     schema.Process
	nc     *nats.Conn
	view   *lease.View
	client *client.Client
	routes [schema.Slots][]schema.Route // by session

	wanted chan schema.Slot // slots whose owner is to be told; one place each
	queued [schema.Slots]atomic.Bool

	mu   sync.Mutex
	seq  schema.OwnerSeq
	open map[schema.Slot]schema.OwnerSeq // the lowest seq that a chunk under way carries
	told [schema.Slots]schema.Target
}

// syncsAtOnce bounds the chunks under way, as a gateway does.
const syncsAtOnce = 8

func (h *herd) run(ctx context.Context, servers string, sessions int, once func()) error {
	var err error
	h.nc, err = nats.Connect(servers, nats.UserInfo(string(deploy.Gateway), secret), nats.CustomInboxPrefix(subjects.Inbox(string(deploy.Gateway))),
		nats.Name(fmt.Sprintf("gateway/crowd-%d", h.number)))
	if err != nil {
		return err
	}
	defer h.nc.Close()
	bucket, err := lease.Open(ctx, h.nc, lease.Options{})
	if err != nil {
		return err
	}
	h.view = lease.NewView(bucket, nil)
	h.client = client.New(h.nc, h.view, client.Config{Settled: h.settled})
	h.wanted, h.open = make(chan schema.Slot, schema.Slots), map[schema.Slot]schema.OwnerSeq{}
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = h.view.Run(below) })
	running.Go(func() { _ = h.client.Run(below) })
	since := schema.Revision(0)
	holder := lease.NewHolder(bucket, h.view, lease.HolderConfig{Role: lease.Gateway, Node: schema.NodeID(fmt.Sprintf("crowd-%d", h.number)),
		Describe: func() schema.ProcessValue { return schema.ProcessValue{Since: since, Sessions: sessions} }})
	<-h.view.Ready()
	since = h.view.Revision()
	return holder.Run(ctx, func(life context.Context, me schema.Process) error {
		h.me = me
		h.gather(sessions)
		h.live(life, once)
		return nil
	})
}

// gather makes the sessions.
func (h *herd) gather(sessions int) {
	for i := range sessions {
		uid := crowdName(h.number, i)
		slot := subjects.SlotOf(uid)
		h.routes[slot] = append(h.routes[slot], schema.Route{
			UID: uid, Owner: h.me, Session: schema.NewSessionNum(uint32(i), 1), Device: "phone", Flag: "app", Listener: "ws",
			Order: schema.Order{Fence: 1, N: uint64(i)}, Age: time.Minute,
		})
	}
}

// live tells owners and touches until the life ends; once is called when all have been told.
func (h *herd) live(ctx context.Context, once func()) {
	var running sync.WaitGroup
	defer running.Wait()
	defer h.view.Subscribe(func(c lease.Change) {
		if c.Slot != nil && c.Slot.Owned {
			h.want(c.Slot.Target.Slot)
		}
	})()
	for s := range schema.Slot(schema.Slots) {
		h.want(s)
	}
	for range syncsAtOnce {
		running.Go(func() {
			for {
				select {
				case s := <-h.wanted:
					h.queued[s].Store(false)
					h.tell(ctx, s)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	first := sync.OnceFunc(once)
	for s := schema.Slot(0); ; s = (s + 1) % schema.Slots {
		if lease.Wait(ctx, h.view.Config().Flush()/schema.Slots) != nil {
			return
		}
		if h.allTold() {
			first()
		}
		running.Go(func() { h.touch(ctx, s) })
	}
}

func (h *herd) want(s schema.Slot) {
	if !h.queued[s].Swap(true) {
		h.wanted <- s
	}
}

func (h *herd) allTold() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.Contains(h.told[:], schema.Target{})
}

// tell tells a slot's owner of all its sessions, chunk after chunk.
func (h *herd) tell(ctx context.Context, s schema.Slot) {
	for ctx.Err() == nil {
		to, err := h.client.Target(ctx, s)
		if err == nil {
			err = h.tellOnce(ctx, to)
		}
		if err == nil {
			h.mu.Lock()
			h.told[s] = to
			h.mu.Unlock()
			return
		}
		_ = lease.Wait(ctx, 20*time.Millisecond) // or the life has ended
	}
}

func (h *herd) tellOnce(ctx context.Context, to schema.Target) error {
	routes := h.routes[to.Slot]
	for {
		chunk := slices.Clone(routes[:min(len(routes), schema.MaxSync)])
		routes = routes[len(chunk):]
		h.draw(to.Slot, chunk)
		answer, err := h.client.Sync(ctx, to, h.me, len(routes) == 0, chunk)
		h.mu.Lock()
		delete(h.open, to.Slot)
		h.mu.Unlock()
		if err != nil {
			return err
		}
		for _, v := range answer.Verdicts {
			if v.Code != schema.CodeOK {
				return v.Code.Err()
			}
		}
		if len(routes) == 0 {
			return nil
		}
	}
}

// draw gives the routes of a chunk their seqs.
func (h *herd) draw(s schema.Slot, chunk []schema.Route) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[s] = h.seq + 1
	for i := range chunk {
		h.seq++
		chunk[i].Seq = h.seq
	}
}

// settled is the settled mark: below it no operation is open.
func (h *herd) settled(schema.Process) schema.OwnerSeq {
	h.mu.Lock()
	defer h.mu.Unlock()
	mark := h.seq
	for _, lowest := range h.open {
		mark = min(mark, lowest-1)
	}
	return mark
}

// touch renews all sessions of a slot.
func (h *herd) touch(ctx context.Context, s schema.Slot) {
	to, ok := h.view.Target(s)
	if !ok || len(h.routes[s]) == 0 {
		return
	}
	touched := make([]schema.Touched, len(h.routes[s]))
	for i := range touched {
		touched[i] = schema.Touched{Session: h.routes[s][i].Session}
	}
	exceptions, err := h.client.Touch(ctx, to, h.me, touched)
	if err == nil && len(exceptions) > 0 { // the owner is new
		h.want(s)
	}
}
