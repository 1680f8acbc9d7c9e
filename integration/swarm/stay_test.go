package swarm_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// stay is one client of a person, from its coming to its going.
type stay struct {
	p      *person
	client *client.Client
	link   *bubble.Link
	ctx    context.Context
	cancel context.CancelFunc

	// guarded by p.mu
	node  string // that it dialled last
	visit *visit // open; nil where it has no session
	gone  bool   // the person has left, whatever the client still does
	deaf  bool   // its network is silent
}

// visit is one session, as its client has seen it.
type visit struct {
	*person
	session  schema.SessionID
	gateway  schema.Process
	from, to moment // to is zero while it lasts
	code     schema.CloseCode
	deaf     []span // when its network was silent
	got      []frame
}

// span is a time in a run; to is 0 while it lasts.
type span struct{ from, to time.Duration }

// meets reports whether the span has anything of a time.
func (s span) meets(from, to time.Duration) bool { return s.from <= to && (s.to == 0 || s.to >= from) }

// frame is a message that came.
type frame struct {
	moment
	id string
}

// newStay makes a client. The caller holds p.mu.
func newStay(ctx context.Context, p *person) *stay {
	s := &stay{p: p, link: bubble.NewClient()}
	s.ctx, s.cancel = context.WithCancel(ctx)
	c := client.Config{
		URL: "ws://gateway/ws", Token: client.FixedToken(string(p.uid)),
		Device: p.device, Flag: p.flag, Level: p.level,
		BackoffMost: 4 * time.Second,
		HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: s.dial, DisableKeepAlives: true}},
		OnMessage:   s.take, OnState: s.note,
	}
	if p.dice.chance(30) {
		c.Resume = p.last
	}
	var err error
	s.client, err = client.New(c)
	require.NoError(p.r.t, err)
	return s
}

// dial connects to one of the gateways, as a load balancer does that knows who is up.
func (s *stay) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	up := s.p.r.reachable()
	if len(up) == 0 {
		return nil, net.ErrClosed
	}
	s.p.mu.Lock()
	g := pick(s.p.dice, up...)
	s.node = string(g.Node)
	s.p.mu.Unlock()
	return g.Reach(ctx, s.link)
}

// at gives the node that the client has dialled last.
func (s *stay) at() string {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	return s.node
}

// note hears what befalls the connection.
func (s *stay) note(now client.State) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	switch now.Phase {
	case client.Connected:
		s.closeLocked(0)
		if !s.gone {
			s.openLocked(now.Session)
		}
	case client.Waiting, client.Stopped:
		code := schema.CloseBye
		if lost, ok := errors.AsType[*client.LostError](now.Err); ok {
			code = lost.Code
		}
		s.closeLocked(code)
	}
}

func (s *stay) openLocked(now client.Session) {
	s.visit = &visit{person: s.p, session: now.Session, gateway: now.Gateway, from: s.p.r.trace.now()}
	if s.deaf {
		s.visit.deaf = append(s.visit.deaf, span{from: s.visit.from.at})
	}
	s.p.last = now.Session
	s.p.visits = append(s.p.visits, s.visit)
}

func (s *stay) closeLocked(code schema.CloseCode) {
	if s.visit != nil {
		s.visit.to, s.visit.code = s.p.r.trace.now(), code
		s.visit = nil
	}
}

func (s *stay) take(m client.Message) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.visit != nil {
		s.visit.got = append(s.visit.got, frame{s.p.r.trace.now(), m.ID})
	}
}

// silence has the client's network fall silent, or come back. That of one who has left stays as it
// was left.
func (s *stay) silence(begins bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.gone || begins == s.deaf {
		return
	}
	s.deaf = begins
	now := s.p.r.trace.now().at
	switch {
	case begins:
		s.link.Cut()
		if s.visit != nil {
			s.visit.deaf = append(s.visit.deaf, span{from: now})
		}
	case s.visit != nil:
		s.visit.deaf[len(s.visit.deaf)-1].to = now
		s.link.Heal()
	default:
		s.link.Heal()
	}
}
