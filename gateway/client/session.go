package client

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// session is one connection after its login.
type session struct {
	// static
	client *Client
	conn   *websocket.Conn
	socket io.Closer // below conn
	enc    schema.Encoding
	log    *slog.Logger
	start  time.Time

	// between goroutines
	outbox   chan []byte             // encoded requests -> writer
	acks     chan uint64             // Run -> writer
	inbox    chan schema.ServerFrame // reader -> Run; closed by the reader
	done     chan struct{}           // closed by the reader at its end
	lastRead atomic.Int64            // nanoseconds since start
	state    atomic.Pointer[Session] // replaced when connected comes again
	refused  chan refusedWatch       // rewatch -> Run

	// owned by the reader (before it starts, by connect)
	hint schema.ServerFrame // the error frame that announced a close

	// static from serve on
	opening []opening // what it begins with

	// owned by the writer
	vigil vigil

	mu      sync.Mutex
	waiting map[string]chan schema.ServerFrame // requests without an answer, by id
}

func newSession(c *Client) *session {
	return &session{
		client:  c,
		enc:     c.cfg.Encoding,
		log:     c.cfg.Logger,
		start:   time.Now(),
		outbox:  make(chan []byte, outboxSize),
		acks:    make(chan uint64, acksSize),
		inbox:   make(chan schema.ServerFrame, inboxSize),
		done:    make(chan struct{}),
		refused: make(chan refusedWatch),
		waiting: make(map[string]chan schema.ServerFrame),
	}
}

func (s *session) info() Session { return *s.state.Load() }

// accept takes the values of a connected frame.
func (s *session) accept(f schema.ServerFrame) {
	info := sessionOf(f)
	s.state.Store(&info)
}

// run serves the session until its connection or ctx ends, and gives why.
func (s *session) run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var ended error
	var pumps sync.WaitGroup
	pumps.Go(func() { ended = s.read(ctx, inner) })
	pumps.Go(func() { s.write(inner, cancel) })
	if s.client.cfg.RefreshBefore > 0 {
		pumps.Go(func() { s.keepFresh(inner) })
	}
	pumps.Go(func() { s.rewatch(inner) })
	s.client.cfg.OnState(State{Phase: Connected, Session: s.info()}) // may send: both are running
	if leaving := s.serveInbox(ctx, inner); leaving {
		s.sayBye(&pumps)
	}
	cancel(nil)
	s.socket.Close()
	pumps.Wait()
	s.conn.CloseNow()
	return ended
}

// serveInbox dispatches until the reader has ended, or ctx: then it reports that the caller leaves.
func (s *session) serveInbox(ctx, inner context.Context) (leaving bool) {
	for {
		select {
		case f, ok := <-s.inbox:
			if !ok {
				return false
			}
			s.dispatch(inner, f)
		case r := <-s.refused:
			s.client.cfg.OnWatchRefused(r.uids, r.why)
		case <-ctx.Done():
			return true
		}
	}
}

// sayBye closes in good order, for at most byeTimeout: the library alone would take up to 10 s.
// What is left of it ends with the socket.
func (s *session) sayBye(pumps *sync.WaitGroup) {
	pumps.Go(func() { s.conn.Close(websocket.StatusNormalClosure, "bye") })
	s.awaitEnd(byeTimeout)
}

// awaitEnd waits for the reader's end, at most d.
func (s *session) awaitEnd(d time.Duration) {
	select {
	case <-s.done:
	case <-time.After(d):
	}
}

// dispatch hands one frame to its callback, on Run's goroutine.
func (s *session) dispatch(ctx context.Context, f schema.ServerFrame) {
	c := s.client
	switch f.Type {
	case schema.TypeRecv:
		if c.seen.add(f.From, f.ID) {
			c.cfg.OnMessage(Message{ID: f.ID, From: f.From, Payload: f.Payload})
		}
		s.ack(ctx, f.Ack)
	case schema.TypePresence:
		if users := c.stamps.fresh(f.Users); len(users) > 0 {
			c.cfg.OnPresence(users)
		}
	case schema.TypeConnected:
		s.accept(f)
		c.set(func() { c.resume = f.Session })
		c.cfg.OnState(State{Phase: Connected, Session: s.info()})
	}
}

func (s *session) ack(ctx context.Context, number uint64) {
	if number == 0 {
		return
	}
	select {
	case s.acks <- number:
	case <-s.done:
	case <-ctx.Done():
	}
}

// request writes f and waits for the answer with its id.
func (s *session) request(ctx context.Context, f schema.ClientFrame) (schema.ServerFrame, error) {
	var none schema.ServerFrame
	b, err := s.encode(f)
	if err != nil {
		return none, err
	}
	answer := make(chan schema.ServerFrame, 1)
	s.await(f.ID, answer)
	defer s.await(f.ID, nil)
	select {
	case s.outbox <- b:
	case <-s.done:
		return none, ErrLost
	case <-ctx.Done():
		return none, ctx.Err()
	}
	return s.awaitAnswer(ctx, answer)
}

func (s *session) awaitAnswer(ctx context.Context, answer <-chan schema.ServerFrame) (f schema.ServerFrame, err error) {
	select {
	case f = <-answer:
	case <-s.done:
		select {
		case f = <-answer: // came last
		default:
			return f, ErrLost
		}
	case <-ctx.Done():
		return f, ctx.Err()
	}
	if f.Type == schema.TypeError {
		return f, refused(f)
	}
	return f, nil
}

// encode refuses here what the gateway would close the session for.
func (s *session) encode(f schema.ClientFrame) ([]byte, error) {
	b, err := s.enc.Encode(f)
	if err != nil {
		return nil, &RefusedError{Code: schema.FrameBadMessage, Message: err.Error()}
	}
	if most := s.info().MaxBytes; most > 0 && int64(len(b)) > most {
		return nil, &RefusedError{Code: schema.FrameTooLarge,
			Message: fmt.Sprintf("frame of %d bytes, the gateway takes %d", len(b), most)}
	}
	return b, nil
}

// await registers who waits for the answer with this id, or nobody.
func (s *session) await(id string, answer chan schema.ServerFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer == nil {
		delete(s.waiting, id)
		return
	}
	s.waiting[id] = answer
}

// answer hands f to who waits for it. A second answer to a request is for nobody.
func (s *session) answer(f schema.ServerFrame) (taken bool) {
	s.mu.Lock()
	waiter, taken := s.waiting[f.ID]
	delete(s.waiting, f.ID)
	s.mu.Unlock()
	if taken {
		waiter <- f // has room for the one answer that it is ever sent
	}
	return taken
}
