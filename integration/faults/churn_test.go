package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// churn are devices that come and go all the time, so that every fault meets logins, and a listener
// to what authorities say they have committed.
type churn struct {
	mu      sync.Mutex
	logins  int
	refused int // turned away, with a hint when to come back
	missed  []string
	top     [schema.Slots]heardFence
	stale   []string // events under a fence that another had followed
	events  int
}

// heardFence is the highest fence that a slot's events were published under.
type heardFence struct {
	fence schema.Revision
	since time.Time
}

// startChurn has devices log in at gateways, be looked up, and leave, until the test ends.
func startChurn(t *testing.T, s *stage, devices int) *churn {
	t.Helper()
	c := &churn{}
	nc := connect(t, s.servers, deploy.Operator, "faults/events")
	_, err := nc.Subscribe(prefix.AllEvents(), c.event)
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for i := range devices {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c.visit(ctx, s.backend, s.gateways[(i+n)%len(s.gateways)], schema.UID(fmt.Sprintf("guest-%d-%d", i, n)))
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return c
}

// visit is one login: whoever is connected is looked up, and must not be said to be offline.
func (c *churn) visit(ctx context.Context, nc *nats.Conn, g *unit, uid schema.UID) {
	cl, err := ws.New(ws.Config{
		URL: "ws://" + g.address + "/ws", Token: ws.FixedToken(string(uid)), Device: "guest",
		BackoffLeast: 50 * time.Millisecond, BackoffMost: 500 * time.Millisecond,
		OnState: func(s ws.State) {
			if s.Phase == ws.Waiting {
				c.note(func() { c.refused++ })
			}
		},
	})
	if err != nil {
		c.note(func() { c.missed = append(c.missed, err.Error()) })
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = cl.Run(ctx) }) // its states are counted
	if cl.Ready(ctx) != nil {
		return
	}
	before, _ := cl.Session()
	asked, done := context.WithTimeout(ctx, 3*time.Second)
	defer done()
	reply, err := call[schema.LookupReply](asked, nc, "lookup", schema.LookupCall{UIDs: []schema.UID{uid}})
	after, _ := cl.Session()
	c.note(func() {
		c.logins++
		if err == nil && reply.Results[0].State == schema.Offline && before == after {
			c.missed = append(c.missed, fmt.Sprintf("%s at %s", uid, before.Gateway))
		}
	})
}

func (c *churn) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// overlap is how long an event may be on its way beside one of the next owner.
const overlap = 250 * time.Millisecond

// event notes under which fence a slot's owner has committed something.
func (c *churn) event(m *nats.Msg) {
	var e schema.Event
	if json.Unmarshal(m.Data, &e) != nil || int(e.Slot) >= schema.Slots {
		return
	}
	now := time.Now()
	c.note(func() {
		c.events++
		switch top := &c.top[e.Slot]; {
		case e.Stamp.Fence > top.fence:
			*top = heardFence{e.Stamp.Fence, now}
		case e.Stamp.Fence < top.fence && now.Sub(top.since) > overlap && (e.Type == schema.EventOnline || e.Type == schema.EventAdded):
			c.stale = append(c.stale, fmt.Sprintf("%s of %s in slot %d under fence %d, %v after one under %d", e.Type, e.UID, e.Slot, e.Stamp.Fence, now.Sub(top.since), top.fence))
		}
	})
}

// holds requires that no two owners committed beside each other, and that whoever was let in was
// shown.
func (c *churn) holds(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("logins beside it %d, attempts turned away %d, let in and said to be offline %d; events %d, commits under a fence already followed by another %d",
		c.logins, c.refused, len(c.missed), c.events, len(c.stale))
	require.Empty(t, c.stale, "committed under a stale fence")
	require.Empty(t, c.missed, "let in, and said to be offline")
	require.NotZero(t, c.logins)
	require.NotZero(t, c.events)
}
