package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Message is what another user, or the backend, has sent.
type Message struct {
	ID      string
	From    schema.UID
	Payload json.RawMessage
}

// Client keeps one session alive. Its methods may be called from any goroutine, callbacks
// included, at any time.
type Client struct {
	// static
	cfg Config

	running atomic.Bool
	lastID  atomic.Uint64 // of requests

	// owned by Run; the token is lent to the refresher of its session
	token    string
	hasToken bool
	backoff  backoff
	seen     seen
	stamps   stamps

	mu      sync.Mutex
	current *session                // nil while there is none
	stopped error                   // what the last Run ended with
	changed chan struct{}           // closed and replaced when one of the two above changes
	resume  schema.SessionID        // of the last session
	watched map[schema.UID]struct{} // sent again to each new session
}

// New checks the configuration; the error names the field. It starts nothing.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("client config: %w", err)
	}
	return &Client{
		cfg:     cfg,
		backoff: backoff{least: cfg.BackoffLeast, most: cfg.BackoffMost},
		changed: make(chan struct{}),
		resume:  cfg.Resume,
		watched: make(map[schema.UID]struct{}),
		stamps:  make(stamps),
	}, nil
}

// Run connects and reconnects until ctx ends, and then returns nil after a goodbye; or until the
// gateway says stop, and then returns ErrStopped. It blocks until all that it started has ended,
// and may be called again.
func (c *Client) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer c.running.Store(false)
	c.set(func() { c.stopped = nil })
	err := c.keepConnected(ctx)
	c.set(func() { c.stopped = cmp.Or(err, ErrStopped) })
	c.cfg.OnState(State{Phase: Stopped, Err: err})
	return err
}

func (c *Client) keepConnected(ctx context.Context) error {
	for {
		c.cfg.OnState(State{Phase: Connecting})
		lost := c.connectOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(lost, ErrStopped) {
			return lost
		}
		delay := c.backoff.next(c.verdict(lost))
		c.cfg.OnState(State{Phase: Waiting, Err: lost, Delay: delay})
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
	}
}

// verdict gives how long the gateway wants to be left alone, and forgets a token that has expired.
func (c *Client) verdict(err error) (after time.Duration) {
	lost, ok := errors.AsType[*LostError](err)
	if !ok {
		return 0
	}
	if lost.Action() == schema.ActionNewToken {
		c.hasToken = false
	}
	return lost.RetryAfter
}

// connectOnce serves one connection until it ends, and says why it did. The error wraps ErrStopped
// where there must be no other.
func (c *Client) connectOnce(ctx context.Context) error {
	s, err := c.connect(ctx)
	if err == nil {
		start := time.Now()
		err = c.serve(ctx, s)
		c.backoff.lasted(time.Since(start))
	}
	lost, ok := errors.AsType[*LostError](err)
	if ok && lost.Action() == schema.ActionStop {
		return fmt.Errorf("%w: %w", ErrStopped, err)
	}
	return err
}

// serve makes s the current session while it lasts. It opens with the watch, taken in the same
// step, so that no Watch falls between two sessions.
func (c *Client) serve(ctx context.Context, s *session) error {
	c.set(func() { c.current, c.resume, s.opening = s, s.info().Session, c.openingLocked(s) })
	defer c.set(func() { c.current = nil })
	return s.run(ctx)
}

// set changes what mu guards and wakes who waits for a change.
func (c *Client) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Ready waits until there is a session. It returns ErrStopped once Run has ended, and the
// context's error.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		current, stopped, changed := c.current, c.stopped, c.changed
		c.mu.Unlock()
		if current != nil || stopped != nil {
			return stopped
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Session gives the session of the moment; ok is false while there is none.
func (c *Client) Session() (info Session, ok bool) {
	if s := c.session(); s != nil {
		return s.info(), true
	}
	return Session{}, false
}

func (c *Client) session() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Send hands a JSON value to the backend and gives the backend's answer. It returns
// ErrNotConnected, ErrLost, a RefusedError or the context's error.
func (c *Client) Send(ctx context.Context, payload []byte) (reply []byte, err error) {
	s := c.session()
	if s == nil {
		return nil, ErrNotConnected
	}
	f, err := s.request(ctx, c.id(schema.ClientFrame{Type: schema.TypeSend, Payload: payload}))
	return f.Reply, err
}

// Watch asks for the presence of uids, now and after each reconnect, until Unwatch; OnPresence
// gets it. Without a connection it only takes note and returns nil, as when the connection ends
// before the answer. A RefusedError or the context's error means that it has taken no note.
func (c *Client) Watch(ctx context.Context, uids ...schema.UID) error {
	added := c.note(uids)
	s := c.session()
	if s == nil || len(uids) == 0 {
		return nil
	}
	_, err := s.request(ctx, c.id(schema.ClientFrame{Type: schema.TypeWatch, UIDs: uids}))
	if errors.Is(err, ErrLost) {
		return nil
	}
	if err != nil {
		c.forget(added)
	}
	return err
}

// Unwatch ends the watch of uids. It returns ErrLost, a RefusedError or the context's error; the
// next session does not watch them in any case.
func (c *Client) Unwatch(ctx context.Context, uids ...schema.UID) error {
	c.forget(uids)
	s := c.session()
	if s == nil || len(uids) == 0 {
		return nil
	}
	_, err := s.request(ctx, c.id(schema.ClientFrame{Type: schema.TypeUnwatch, UIDs: uids}))
	return err
}

// note adds uids to the watched and gives those that are new.
func (c *Client) note(uids []schema.UID) (added []schema.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range uids {
		if _, ok := c.watched[uid]; !ok {
			c.watched[uid] = struct{}{}
			added = append(added, uid)
		}
	}
	return added
}

func (c *Client) forget(uids []schema.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uid := range uids {
		delete(c.watched, uid)
	}
}

// wanted gives those of uids that are watched.
func (c *Client) wanted(uids []schema.UID) []schema.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(uids), func(u schema.UID) bool { _, ok := c.watched[u]; return !ok })
}

// id gives a request a number of its own.
func (c *Client) id(f schema.ClientFrame) schema.ClientFrame {
	f.ID = "c" + strconv.FormatUint(c.lastID.Add(1), 10)
	return f
}
