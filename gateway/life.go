package gateway

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// intakeSize bounds the messages that wait in an intake. Each delivery process has one push under
// way, so a full one means that something is wedged.
const intakeSize = 1024

// life is one boot of the gateway: a name under which authorities and delivery know its sessions.
// The sockets outlive it. What hangs on it is void when it ends: a boot that is gone counts for
// nothing anywhere.
type life struct {
	// static
	me      schema.Process
	ctx     context.Context
	ledger  *ledger
	leaves  *lanes[schema.Target, farewell]
	chases  *lanes[schema.Process, chase]
	syncs   syncs
	pushes  *lease.Loop
	kicks   *lease.Loop
	asks    *lease.Loop
	revokes *lease.Loop

	ackWaits atomic.Int32 // messages whose senders wait for acknowledgements

	mu    sync.Mutex // guards spawn against the end
	ended bool
	tasks sync.WaitGroup
}

func (g *Gateway) newLife(ctx context.Context, me schema.Process) *life {
	l := &life{me: me, ctx: ctx, ledger: newLedger()}
	l.leaves = &lanes[schema.Target, farewell]{
		most: schema.MaxEntries, first: 100 * time.Millisecond, last: 5 * time.Second, spawn: l.spawn,
		send: func(ctx context.Context, t schema.Target, batch []farewell) []farewell {
			return g.sendLeaves(ctx, l, t, batch)
		},
	}
	l.chases = &lanes[schema.Process, chase]{
		most: schema.MaxEntries, first: 500 * time.Millisecond, last: 5 * time.Second, spawn: l.spawn,
		send: func(ctx context.Context, p schema.Process, batch []chase) []chase {
			return g.sendChases(ctx, l, p, batch)
		},
	}
	l.pushes = lease.NewLoop(intakeSize, func(m *nats.Msg) { g.servePush(l, m) })
	l.kicks = lease.NewLoop(intakeSize, func(m *nats.Msg) { g.serveKick(l, m) })
	l.revokes = lease.NewLoop(intakeSize, func(m *nats.Msg) { g.serveRevoke(l, m) })
	l.asks = lease.NewLoop(intakeSize, func(m *nats.Msg) {
		if m.Subject == g.config.Prefix.DrainGateway(me) {
			g.serveDrain(l, m)
			return
		}
		g.serveSessions(l, m)
	})
	return l
}

// spawn starts f under the life, whose end waits for it; false once it has ended.
func (l *life) spawn(f func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.tasks.Go(func() { f(l.ctx) })
	return true
}

// end waits for all that the life has started. Its context has ended.
func (l *life) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.tasks.Wait()
}

// live is the work of one life: it takes what is addressed to this boot, brings the sessions under
// it, and serves until the life has ended, or until until has and everything is drained.
func (g *Gateway) live(until, leased context.Context, me schema.Process) error {
	ctx, end := context.WithCancelCause(context.WithoutCancel(leased))
	l := g.newLife(ctx, me)
	defer l.end()
	defer end(nil)
	for _, in := range l.subscriptions(g) {
		sub, err := in.nc.ChanSubscribe(in.subject, in.loop.Queue)
		if err != nil {
			return fmt.Errorf("subscribe %s: %w", in.subject, err)
		}
		defer sub.Unsubscribe()
		l.spawn(in.loop.Run)
	}
	g.adopt(l)
	defer g.orphan(l)
	g.log.Info("gateway lives", "process", me.String(), "sessions", g.registry.len())
	<-leased.Done()
	if until.Err() != nil {
		g.drain(l)
	} else {
		g.log.Warn("gateway's life has ended", "process", me.String(), "cause", context.Cause(leased))
	}
	end(context.Cause(leased))
	return nil
}

// subscription is a subject that a life serves.
type subscription struct {
	nc      conn
	subject string
	loop    *lease.Loop
}

func (l *life) subscriptions(g *Gateway) []subscription {
	p := g.config.Prefix
	return []subscription{
		{g.push, p.Push(l.me), l.pushes},
		{g.control, p.Kick(l.me), l.kicks},
		{g.control, p.Revoke(), l.revokes},
		{g.control, p.Sessions(l.me), l.asks},
		{g.control, p.DrainGateway(l.me), l.asks},
	}
}

// adopt makes l the life of the sessions: the active ones learn their new name, and each slot's
// authority is told of them. A login of an earlier life finds that it is over, in the step in which
// it would have become active.
func (g *Gateway) adopt(l *life) {
	g.life.Store(l)
	sessions := 0
	for n := range g.slots {
		list := g.slots[n].snapshot()
		sessions += len(list)
		for _, s := range list {
			g.reply(s, s.connected(l.me))
		}
		g.wantSync(l, schema.Slot(n))
	}
	g.since.adopted(sessions > 0)
}

// orphan leaves the sessions without a life: they stay, but nobody new comes in.
func (g *Gateway) orphan(l *life) {
	g.life.CompareAndSwap(l, nil)
	g.since.reset()
}
