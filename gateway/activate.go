package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Times of a login.
const (
	loginTime  = 5 * time.Second       // from the hello to the connected frame
	firstRetry = 10 * time.Millisecond // between two registers, doubling
	mostRetry  = 500 * time.Millisecond
)

// enroll makes a session pending. False where it has ended meanwhile.
func (g *Gateway) enroll(s *session, who Identity) bool {
	s.who, s.slot = who, subjects.SlotOf(who.UID)
	g.registry.add(s)
	if s.admit() {
		return true
	}
	g.registry.remove(s.num)
	return false
}

// activate takes a pending session to active:
//
//	register --no conflict--------------------------------> committed --+
//	   ^  |                                                             |
//	   |  +--conflict--> kick each on its owner --> commit --> committed+--> mark active
//	   |                     ^                        |                        |
//	   |                     +------ new conflict ----+                        |
//	   +---- refused, moved, nobody there, fence overtaken: wait, begin again -+
//
// Nothing is rolled back on the way: where it does not come to an end in time, or policy refuses,
// the session ends, and its unregister undoes whatever was applied.
func (g *Gateway) activate(ctx context.Context, l *life, s *session) (outcome string, e ending) {
	tries := pace{first: firstRetry, most: mostRetry}
	for {
		var res schema.LoginResult
		to, err := g.mesh.Target(ctx, s.slot)
		if err == nil {
			res, err = g.register(ctx, l, s, to)
		}
		for err == nil && res.Code == schema.CodeConflict {
			var ends []schema.End
			if ends, err = g.endConflicts(ctx, l, s, to, res.Conflicts); err == nil {
				res, err = g.commit(ctx, l, s, to, schema.CommitEntry{UID: s.who.UID, Session: s.num, Token: res.Token, Ends: ends})
			}
		}
		switch {
		case err == nil && res.Code == schema.CodeOK && g.markActive(l, s, to, res.Order):
			s.poke()
			return outcomeOK, e
		case s.ctx.Err() != nil:
			return outcomeGone, lost()
		case l.ctx.Err() != nil:
			return turnedAway("gateway has lost its lease", busyRetry)
		case err == nil && res.Code == schema.CodeRefused:
			return outcomeRefused, ending{code: closeCode(res.Close, schema.CloseRefused), reason: res.Why}.withHint(schema.FrameNotAllowed, 0)
		case err == nil && res.Code == schema.CodeSuperseded:
			return outcomeSuperseded, ending{code: closeCode(res.Close, schema.CloseReplaced)}
		case err == nil && res.Code == schema.CodeBad:
			g.log.Error("authority calls a login malformed", "target", to.String(), "why", res.Why)
			return outcomeInternal, ending{code: schema.CloseInternal}
		}
		hint := retryAfter(res, err)
		if tries.wait(ctx, hint) != nil {
			if s.ctx.Err() != nil {
				return outcomeGone, lost()
			}
			why := notNow(res, err)
			g.log.Info("login not possible now", "session", s.String(), "why", why, "err", err)
			return turnedAway(why, max(hint, busyRetry))
		}
	}
}

// notNow says why a login was not done in its time, as a close reason.
func notNow(res schema.LoginResult, err error) string {
	switch {
	case errors.Is(err, client.ErrDisconnected):
		return "gateway is not connected to the mesh"
	case errors.Is(err, client.ErrUnowned), errors.Is(err, client.ErrNoResponders):
		return "nobody serves this user's slot now"
	case errors.Is(err, schema.ErrUnavailable):
		return "the mesh takes no logins now"
	case err != nil:
		return "no answer from the mesh in time"
	case res.Code == schema.CodeDamped:
		return "this device is replaced too often"
	case res.Code == schema.CodeBusy:
		return "another login of this user, or a rebuild, comes first"
	}
	return "login not possible now: " + res.Code.String()
}

// register asks once; a time-out repeats the same message while its target owns the slot.
func (g *Gateway) register(ctx context.Context, l *life, s *session, to schema.Target) (schema.LoginResult, error) {
	seq, ok := s.draw(l, to)
	if !ok {
		return schema.LoginResult{}, context.Canceled
	}
	login := schema.Login{Route: s.route(l.me, seq)}
	if boot, num, ok := s.resume.Parse(); ok {
		login.ResumeBoot, login.ResumeSession = boot, num
	}
	return repeat(ctx, g, to, func() (schema.LoginResult, error) {
		deadline, _ := ctx.Deadline()
		login.Left = time.Until(deadline)
		res, err := g.mesh.Register(ctx, to, login)
		if isAnswer(err) {
			s.answered(l, seq)
		}
		return res, err
	})
}

// commit asks once; a time-out repeats the same message while its target owns the slot.
func (g *Gateway) commit(ctx context.Context, l *life, s *session, to schema.Target, e schema.CommitEntry) (schema.LoginResult, error) {
	return repeat(ctx, g, to, func() (schema.LoginResult, error) { return g.mesh.Commit(ctx, to, l.me, e) })
}

// repeat makes the same request again after each time-out, as long as the slot's key names the
// target: what it did not answer it may have done.
func repeat[T any](ctx context.Context, g *Gateway, to schema.Target, try func() (T, error)) (T, error) {
	for {
		res, err := try()
		if !errors.Is(err, client.ErrTimeout) || ctx.Err() != nil || !g.owns(to) {
			return res, err
		}
	}
}

// owns reports whether a target still owns its slot, as far as heard.
func (g *Gateway) owns(t schema.Target) bool {
	now, ok := g.view.Target(t.Slot)
	return ok && now.Differs(t) == ""
}

// isAnswer reports whether an outcome is the target's answer, a refusal too: what was asked is then
// not under way any more.
func isAnswer(err error) bool {
	_, refused := errors.AsType[*client.Refusal](err)
	return err == nil || refused
}

// retryAfter is the wait that an answer asks for.
func retryAfter(res schema.LoginResult, err error) time.Duration {
	if r, ok := errors.AsType[*client.Refusal](err); ok {
		return r.Head.RetryAfter
	}
	return res.RetryAfter
}

// closeCode is the code given, or another where it is none that a session may be closed with.
func closeCode(given, otherwise schema.CloseCode) schema.CloseCode {
	switch {
	case given == schema.CloseNoStatus, given == schema.CloseAbnormal, !slices.Contains(schema.CloseCodes(), given):
		return otherwise
	}
	return given
}
