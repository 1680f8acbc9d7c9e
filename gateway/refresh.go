package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Refreshes of one client: so many at once, then one a second. Each costs a signature to check, or a
// question to a backend.
const (
	refreshBurst = 5
	refreshRate  = 1
)

// What became of a refresh: the closed set of a metric's label, beside those of a login.
const outcomeChanged = "changed" // a good token, of somebody or something else

// errChanged is returned when a new token is not that of the session: what it says of uid, device,
// flag and level is what the session is, and its login generation is not lower.
var errChanged = errors.New("token is not this session's")

// refresh takes a new token for a running session, beside the reader and in turn with its watches, so
// that those behind it are judged by what it brings. Whatever is wrong with it, the
// session stays as it is, until the token before ends.
func (g *Gateway) refresh(s *session, f schema.ClientFrame) {
	switch {
	case f.Token == "":
		g.fail(s, f.ID, schema.FrameBadMessage, "token is missing", 0)
	case s.refreshing.Load():
		g.metrics.drop(dropInFlight)
		g.fail(s, f.ID, schema.FrameInFlight, "a refresh is under way", 0)
	case !s.refreshes.take(g.now(), refreshRate, refreshBurst):
		g.metrics.drop(dropRate)
		g.fail(s, f.ID, schema.FrameRateLimited, "too many refreshes", busyRetry)
	default:
		s.refreshing.Store(true)
		if !g.inTurn(s, func(giveBack func()) { g.refreshNow(s, f, giveBack) }) {
			s.refreshing.Store(false)
			g.fail(s, f.ID, schema.FrameInFlight, "too many requests without an answer", 0)
		}
	}
}

func (g *Gateway) refreshNow(s *session, f schema.ClientFrame, giveBack func()) {
	outcome, answer := g.renew(s, f)
	g.metrics.refreshes.WithLabelValues(outcome).Inc()
	s.refreshing.Store(false) // first: its client may send the next one when it has the answer
	giveBack()
	g.reply(s, answer)
	if outcome != outcomeOK {
		return
	}
	if e, revoked := g.revoked.meets(s.proven(), g.now()); revoked {
		g.end(s, e)
		return
	}
	g.keepToRights(s)
}

// renew makes what a new token says the session's, and gives the answer.
func (g *Gateway) renew(s *session, f schema.ClientFrame) (outcome string, answer schema.ServerFrame) {
	ctx, cancel := context.WithTimeout(s.ctx, loginTime)
	defer cancel()
	was := s.proven()
	id, err := g.config.Auth.Authenticate(ctx, Credentials{
		Token: f.Token, Device: was.Device, Flag: was.Flag, Level: was.Level, Addr: s.addr, Listener: s.listener,
	})
	if err == nil {
		err = id.follows(was)
	}
	switch {
	case err == nil:
		s.proof.Store(&id)
		return outcomeOK, schema.ServerFrame{Type: schema.TypeRefreshed, ID: f.ID, ExpiresAt: id.expiresAt()}
	case errors.Is(err, ErrTokenExpired):
		outcome = outcomeExpired
	case errors.Is(err, ErrBadToken):
		outcome = outcomeBadToken
	case errors.Is(err, errChanged):
		outcome = outcomeChanged
	default:
		if s.ctx.Err() == nil {
			g.log.Warn("token could not be refreshed", "session", s.String(), "err", err)
		}
		return outcomeUnavailable, failure(f.ID, schema.FrameUnavailable, "authentication is not possible now", busyRetry)
	}
	return outcome, failure(f.ID, schema.FrameNotAllowed, err.Error(), 0)
}

// follows tells why a session of was cannot go on as id.
func (id *Identity) follows(was *Identity) error {
	what := ""
	switch {
	case id.UID != was.UID:
		what = "user"
	case id.Device != was.Device:
		what = "device"
	case id.Flag != was.Flag:
		what = "flag"
	case id.Level != was.Level:
		what = "level"
	case id.Gen < was.Gen:
		return fmt.Errorf("%w: its login generation is %d, below %d", errChanged, id.Gen, was.Gen)
	default:
		return nil
	}
	return fmt.Errorf("%w: it has another %s", errChanged, what)
}

// keepToRights ends what a session watches that its token does not allow any more, and says so: its
// client knows nothing of those users from now on. What a policy allowed that cannot be asked now stays.
func (g *Gateway) keepToRights(s *session) {
	refusal := g.forbidden(s, g.watches.watchedBy(s))
	if refusal == nil || len(refusal.UIDs) == 0 {
		return
	}
	g.watches.end(s, refusal.UIDs)
	f := schema.ServerFrame{Type: schema.TypePresence}
	for _, u := range refusal.UIDs {
		f.Users = append(f.Users, schema.WatchedUser{UID: u, State: string(schema.Unknown)})
	}
	g.reply(s, f)
}

// watchedBy lists the users that a session watches.
func (h *hub) watchedBy(s *session) (uids []schema.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.clients[s]; w != nil {
		for t := range w.users {
			uids = append(uids, t.UID)
		}
	}
	return uids
}
