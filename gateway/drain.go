package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// errDrainAsked ends Run, which then returns nil.
var errDrainAsked = errors.New("asked to drain")

// serveDrain begins the drain, as the end of Run's context does, and tells how far it is.
func (g *Gateway) serveDrain(l *life, m *nats.Msg) {
	g.depart()
	data, err := json.Marshal(schema.DrainReply{Node: l.me.Node, Boot: l.me.Boot, Left: g.registry.len()})
	g.respond(m, data, err)
}

// drain ends a life in order, top to bottom. The lease is renewed meanwhile.
//
//	not ready, new hellos refused -> wait -> close the sessions, paced, with a hint when to return
//	-> tell the authorities -> (the caller) subscriptions end, key resigned, sockets closed
func (g *Gateway) drain(l *life) {
	g.draining.Store(true)
	g.log.Info("gateway drains", "sessions", g.registry.len())
	ctx, cancel := context.WithTimeout(context.Background(), g.config.Drain.Wait)
	defer cancel()
	<-ctx.Done()
	pause := time.Second / time.Duration(g.config.Drain.Rate)
	for _, s := range g.door.everybody(true) {
		if g.end(s, goingAway()) {
			time.Sleep(pause)
		}
	}
	g.sayGoodbye(l)
}

// goingAway is the end of a session whose gateway drains. Clients come back spread out.
func goingAway() ending {
	spread := time.Duration(rand.Int64N(int64(2 * time.Second)))
	return ending{code: schema.CloseGoingAway}.withHint(schema.FrameUnavailable, 100*time.Millisecond+spread)
}

// sayGoodbye waits until the authorities know that the sessions have ended.
func (g *Gateway) sayGoodbye(l *life) {
	ctx, cancel := context.WithTimeout(context.Background(), g.config.Drain.Most)
	defer cancel()
	for l.leaves.len() > 0 {
		if lease.Wait(ctx, 10*time.Millisecond) != nil {
			g.log.Warn("ended sessions not reported", "sessions", l.leaves.len())
			return
		}
	}
}

// closeAll ends all sessions that are left when there will be no more life, because of why.
func (g *Gateway) closeAll(why error) {
	e := goingAway()
	if errors.Is(why, lease.ErrTakenOver) {
		e = ending{code: schema.CloseMeshLost, reason: "another gateway has this one's name"}.withHint(schema.FrameUnavailable, busyRetry)
	}
	for _, s := range g.door.everybody(true) {
		g.end(s, e)
	}
}
