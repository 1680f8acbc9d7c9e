package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// state is where a session stands:
//
//	opening --admit--> pending --activate--> active
//	   |                  |                    |
//	   +------------------+------- close ------+----> closed
type state uint8

const (
	opening state = iota // connected, not known yet who it is
	pending              // in the registry, being logged in
	active               // in the registry and in its slot: committed, reachable
	closed               // out of both, its outbox sealed
	stateEnd
)

var stateNames = [...]string{"opening", "pending", "active", "closed"}

func (s state) String() string { return stateNames[s] }

// session is one WebSocket connection and what hangs on it.
type session struct {
	// static from the upgrade on
	g        *Gateway
	conn     *websocket.Conn
	wire     *wire
	enc      schema.Encoding
	listener schema.Listener
	addr     string
	opened   time.Duration   // when, by the gateway's clock
	ctx      context.Context // ends with the session
	cancel   context.CancelFunc
	settle   func() // the handshake is over; may be called again
	wake     chan struct{}

	// static from the registry on: set by the login before
	num  schema.SessionNum
	who  Identity // by the login's token; see proven
	slot schema.Slot

	// set by the reader with the hello, static after it
	greeted bool
	helloID string           // the client's, echoed by the answer
	resume  schema.SessionID // the client's previous session

	// owned by the reader
	allowance allowance
	turn      chan struct{} // closed when its latest watch, unwatch or refresh is done; nil before the first
	refreshes allowance

	// any goroutine
	heard      atomic.Int64             // when the last frame came, by the gateway's clock
	dirty      atomic.Int64             // when the first frame came that no touch has told of; 0: none
	sends      atomic.Int32             // in flight
	proof      atomic.Pointer[Identity] // by the latest token; nil before a refresh
	refreshing atomic.Bool              // a token is being judged
	tasks      sync.WaitGroup           // login, sends and pings; waited for by serve

	place int // in its slot's list; guarded by the slot's mu

	mu     sync.Mutex
	state  state
	out    outbox
	room   chan struct{} // closed when out is emptied; nil: no answer waits for it
	acks   acks
	ending ending            // of a closed one
	life   *life             // under which the latest operation was drawn
	home   schema.Target     // where the latest register or sync went
	told   schema.Target     // who has acknowledged the latest of them
	order  schema.Order      // of an active one
	seqs   []schema.OwnerSeq // drawn under life: the latest few, ascending
	open   []schema.OwnerSeq // of them, whose operations are open; all went to home
}

// keepSeqs is how many drawn seqs a session remembers: a route that was looked up has one of them.
const keepSeqs = 8

// admit makes the session pending: it is in the registry. False where it has ended meanwhile.
func (s *session) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != opening {
		return false
	}
	s.enterLocked(pending)
	return true
}

// activate makes the session active and queues its connected frame, in one step. False where it
// has ended meanwhile. The caller holds the mu of its slot.
func (s *session) activate(by schema.Target, o schema.Order, connected []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != pending {
		return false
	}
	s.enterLocked(active)
	s.told, s.order = by, o
	s.out.must(connected)
	return true
}

// close seals the outbox and lets the writer say goodbye. It gives the state before; closed where
// the session had ended already.
func (s *session) close(e ending) (before state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.state
	if before == closed {
		return closed
	}
	s.enterLocked(closed)
	s.ending = e
	s.acks.abandon()
	if e.gone {
		s.out.take()
	}
	return before
}

func (s *session) enterLocked(next state) {
	s.g.metrics.moved(s.state, next)
	s.state = next
}

func (s *session) current() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// proven is what the session's latest token says. Of who it never differs in uid, device, flag and
// level; the rank of a login, generation included, stays that of who.
func (s *session) proven() *Identity {
	if p := s.proof.Load(); p != nil {
		return p
	}
	return &s.who
}

// alive notes that a frame has come.
func (s *session) alive() {
	now := int64(s.g.now())
	s.heard.Store(now)
	s.dirty.CompareAndSwap(0, now)
}

// takeDirty makes the session clean and gives since when it was not; 0 where it was clean.
func (s *session) takeDirty() int64 { return s.dirty.Swap(0) }

// giveBack makes the session dirty again, since when it was.
func (s *session) giveBack(since int64) {
	for since != 0 {
		now := s.dirty.Load()
		if now != 0 && now <= since || s.dirty.CompareAndSwap(now, since) {
			return
		}
	}
}

// draw gives the seq of a register or sync entry that goes to a target; false where the session
// has ended. What is open at another target is void: that one is asked nothing any more.
func (s *session) draw(l *life, to schema.Target) (schema.OwnerSeq, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == closed {
		return 0, false
	}
	if s.life != l {
		s.life, s.seqs, s.open, s.told = l, nil, nil, schema.Target{}
	} else if s.home != to {
		l.ledger.close(s.open...)
		s.open = s.open[:0]
	}
	s.home = to
	return s.drawLocked(), true
}

func (s *session) drawLocked() schema.OwnerSeq {
	seq := s.life.ledger.draw()
	if len(s.seqs) == keepSeqs {
		s.seqs = append(s.seqs[:0], s.seqs[1:]...)
	}
	s.seqs = append(s.seqs, seq)
	s.open = append(s.open, seq)
	return seq
}

// answered closes an operation, and with it the session's earlier ones, which it has overtaken.
func (s *session) answered(l *life, seq schema.OwnerSeq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != l {
		return
	}
	n := 0
	for n < len(s.open) && s.open[n] <= seq {
		n++
	}
	l.ledger.close(s.open[:n]...)
	s.open = s.open[n:]
}

// acknowledged notes that a target has taken the session's route.
func (s *session) acknowledged(l *life, by schema.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == l {
		s.told = by
	}
}

// lastWord gives the unregister of a session that has closed, and where it goes; false where
// nobody was ever told of the session in a life that goes on.
func (s *session) lastWord() (l *life, to schema.Target, last farewell, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return nil, schema.Target{}, last, false
	}
	last.session, last.since = s, s.g.now()
	last.Leave = schema.Leave{UID: s.who.UID, Session: s.num, Seq: s.drawLocked(), Reason: s.ending.why()}
	return s.life, s.home, last, true
}

// route is the session as an authority hears of it.
func (s *session) route(me schema.Process, seq schema.OwnerSeq) schema.Route {
	s.mu.Lock()
	order := s.order
	s.mu.Unlock()
	now := s.g.now()
	return schema.Route{
		UID: s.who.UID, Owner: me, Session: s.num, Device: s.who.Device, Flag: s.who.Flag, Level: s.who.Level,
		Listener: s.listener, Gen: s.who.Gen, Seq: seq, Order: order,
		Age: now - s.opened, Idle: max(0, now-time.Duration(s.heard.Load())),
	}
}

// forgotten notes that the session's authority does not know it.
func (s *session) forgotten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = schema.Target{}
}

// toldUnder reports whether a target has the session's route already.
func (s *session) toldUnder(l *life, t schema.Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life == l && s.told.Differs(t) == ""
}

// redraw gives another seq for the last word of a closed session.
func (s *session) redraw() schema.OwnerSeq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawLocked()
}

// drewLocked reports whether a seq is one that the session has drawn, as far as it remembers.
func (s *session) drewLocked(seq schema.OwnerSeq) bool { return slices.Contains(s.seqs, seq) }
