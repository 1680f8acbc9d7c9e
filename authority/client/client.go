package client

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Config configures a Client. The zero value works for who sends no operations of a gateway.
type Config struct {
	// Prefix goes in front of every subject; none by default.
	Prefix subjects.Prefix
	// Settled gives the settled mark of a gateway boot at the moment its operations are sent: below
	// it none is open. Nil is 0, which settles nothing. It is called on lanes and must not block.
	Settled func(schema.Process) schema.OwnerSeq
	// Log takes what an operator should see; discarded by default.
	Log *slog.Logger
}

// owners is what is needed of a *lease.View: what the bucket says, as far as heard.
type owners interface {
	Ready() <-chan struct{}
	Target(schema.Slot) (schema.Target, bool)
	Address(schema.Slot) (owner schema.Target, highest schema.Revision, owned bool)
	Highest(schema.Slot) schema.Revision
	Saw(schema.Slot, schema.Revision) (believed bool)
	Standing(lease.Role, schema.Process) lease.Standing
	Reread(ctx context.Context, key string) error
}

// Client finds the owner of a slot and asks it. All methods are safe for concurrent use; they wait
// until Run has been called and the view has read the bucket once.
type Client struct {
	// static
	nc        requester
	inboxes   inboxes
	view      owners
	config    Config
	log       *slog.Logger
	registers *slotLanes[schema.Login, schema.LoginResult]
	commits   *slotLanes[schema.CommitEntry, schema.LoginResult]
	leaves    *slotLanes[schema.Leave, schema.Code]
	lookups   *lookupLanes
	slots     [schema.Slots]slotNote
	running   chan struct{} // closed by Run
	counts    counts

	life context.Context // Run's; set before running is closed

	mu      sync.Mutex // guards spawn against the end of Run
	stopped bool
	wg      sync.WaitGroup
}

// counts are what Stats gives.
type counts struct{ lookups, uids, requests, again atomic.Uint64 }

// Stats counts since the start.
type Stats struct {
	Lookups  uint64 // calls of Lookup
	UIDs     uint64 // that they named
	Requests uint64 // that carried them
	Again    uint64 // uids asked once more, since their slot's owner had changed
}

// New returns a client that asks over nc, by what v says. It starts nothing.
func New(nc *nats.Conn, v *lease.View, config Config) *Client {
	c := newClient(nc, v, config)
	c.inboxes = nc
	return c
}

func newClient(nc requester, v owners, config Config) *Client {
	c := &Client{nc: nc, view: v, config: config, log: config.Log, running: make(chan struct{})}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.openLanes()
	c.openLookups()
	return c
}

// Run lets the client work until ctx ends, then waits for all that it has started. It is called
// once. Calls that are under way then end by themselves, within their try.
func (c *Client) Run(ctx context.Context) error {
	c.life = ctx
	close(c.running)
	<-ctx.Done()
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.wg.Wait()
	return nil
}

// started waits until the client can work.
func (c *Client) started(ctx context.Context) error {
	for _, ready := range [...]<-chan struct{}{c.running, c.view.Ready()} {
		select {
		case <-ready:
			continue
		default:
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return fmt.Errorf("bucket not read yet: %w", context.Cause(ctx))
		}
	}
	return nil
}

// spawn starts f under the life of Run, which waits for it; false once that has ended.
func (c *Client) spawn(f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.wg.Go(func() { f(c.life) })
	return true
}

// ended reports whether Run does not work: not yet, or no more.
func (c *Client) ended() bool {
	select {
	case <-c.running:
		return c.life.Err() != nil
	default:
		return true
	}
}

// Stats gives what was counted since the start.
func (c *Client) Stats() Stats {
	return Stats{c.counts.lookups.Load(), c.counts.uids.Load(), c.counts.requests.Load(), c.counts.again.Load()}
}
