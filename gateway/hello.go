package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// defaultFlag is the flag of a client that names none.
const defaultFlag schema.Flag = "app"

// busyRetry is after how long a client may come back that is turned away for want of the mesh.
const busyRetry = time.Second

// What became of a login: the closed set of a metric's label.
const (
	outcomeOK          = "ok"
	outcomeBadToken    = "bad_token"
	outcomeExpired     = "expired"
	outcomeRefused     = "refused" // by policy
	outcomeRevoked     = "revoked"
	outcomeSuperseded  = "superseded"  // a newer login of the device took its place
	outcomeUnavailable = "unavailable" // no mesh, no time, no room
	outcomeGone        = "gone"        // the client left, or was kicked, meanwhile
	outcomeInternal    = "internal"
)

var allOutcomes = [...]string{outcomeOK, outcomeBadToken, outcomeExpired, outcomeRefused, outcomeRevoked, outcomeSuperseded, outcomeUnavailable, outcomeGone, outcomeInternal}

// hello takes a client's hello: a login begins beside the reader, which goes on. A hello with a
// field out of its range is answered, and the client may send a better one while there is time.
func (g *Gateway) hello(s *session, f schema.ClientFrame) {
	c, err := credentials(s, f)
	if err != nil {
		g.fail(s, f.ID, schema.FrameBadMessage, err.Error(), 0)
		return
	}
	s.greeted = true
	s.resume = f.Resume
	s.helloID = f.ID
	s.tasks.Go(func() { g.login(s, c) })
}

func credentials(s *session, f schema.ClientFrame) (Credentials, error) {
	level, err := schema.ParseLevel(f.Level)
	c := Credentials{Token: f.Token, Device: f.Device, Flag: f.Flag, Level: level, Addr: s.addr, Listener: s.listener}
	if c.Flag == "" {
		c.Flag = defaultFlag
	}
	return c, cmp.Or(err, c.Device.Check(), c.Flag.Check()) // the first: it goes into one line
}

// login takes a session from its hello to active, or to its end.
func (g *Gateway) login(s *session, c Credentials) {
	defer s.settle()
	start := g.now()
	outcome, e := g.tryLogin(s, c)
	g.metrics.login(outcome, g.now()-start)
	if outcome == outcomeOK {
		return
	}
	if e.hint != nil {
		e.hint.ID = s.helloID
	}
	g.end(s, e)
}

func (g *Gateway) tryLogin(s *session, c Credentials) (outcome string, _ ending) {
	ctx, cancel := context.WithTimeout(s.ctx, loginTime)
	defer cancel()
	l := g.life.Load()
	switch {
	case l == nil || g.draining.Load():
		return turnedAway("gateway is not connected to the mesh", busyRetry)
	case l.leaves.len() >= g.config.Limits.Leaves:
		return turnedAway("too many ended sessions not reported yet", busyRetry)
	}
	who, err := g.config.Auth.Authenticate(ctx, c)
	switch {
	case errors.Is(err, ErrTokenExpired):
		return outcomeExpired, ending{code: schema.CloseTokenExpired}.withHint(schema.FrameNotAllowed, 0)
	case errors.Is(err, ErrBadToken):
		return outcomeBadToken, ending{code: schema.CloseBadToken, reason: err.Error()}.withHint(schema.FrameNotAllowed, 0)
	case err != nil:
		g.log.Warn("client could not be authenticated", "address", s.addr, "err", err)
		return turnedAway("authentication is not possible now", busyRetry)
	}
	if !g.enroll(s, who) {
		return outcomeGone, lost()
	}
	if e, revoked := g.revoked.meets(&s.who, g.now()); revoked {
		return turnedOut(e)
	}
	return g.activate(ctx, l, s)
}

func turnedAway(why string, retryAfter time.Duration) (string, ending) {
	return outcomeUnavailable, ending{code: schema.CloseNotNow, reason: why}.withHint(schema.FrameUnavailable, retryAfter)
}

// connected is the frame that tells a client what its session is called under a life.
func (s *session) connected(me schema.Process) schema.ServerFrame {
	f := schema.ServerFrame{
		Type: schema.TypeConnected, Session: s.num.Outside(me.Boot), Node: me.Node, Boot: me.Boot,
		UID: s.who.UID, Device: s.who.Device, Flag: s.who.Flag, Level: s.who.Level.String(),
		HeartbeatMS: s.g.view.Config().HeartbeatMS, MaxBytes: s.g.config.Limits.MaxBytes,
	}
	f.ExpiresAt = s.proven().expiresAt()
	return f
}

// greeting is the connected frame that answers the hello.
func (s *session) greeting(me schema.Process) schema.ServerFrame {
	f := s.connected(me)
	f.ID = s.helloID
	return f
}

func (s *session) String() string {
	return fmt.Sprintf("session %d of %q from %s", uint64(s.num), string(s.who.UID), s.addr)
}
