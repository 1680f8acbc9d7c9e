package gateway

import (
	"context"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// vigil watches over a session's silence and its token's end. It belongs to the writer, which
// looks when the timer fires:
//
//	last frame ----- heartbeat -----> ping ----- heartbeat -----> closed with 3002
//	               (any frame, a pong too, begins anew)
//
// The timer is not touched by frames: when it fires too early it is set to when it should have.
type vigil struct {
	s      *session
	timer  *time.Timer
	pinged int64     // the silence, by its beginning, in which the ping was sent
	armed  bool      // the session was active when it looked last: the timer knows of the token's end
	until  time.Time // that end; zero: never
}

func newVigil(s *session) *vigil {
	return &vigil{s: s, timer: time.NewTimer(s.g.view.Config().Heartbeat())}
}

// look pings or ends a silent session, ends one whose token has, and sets the timer anew.
func (v *vigil) look() {
	s, g := v.s, v.s.g
	heartbeat := g.view.Config().Heartbeat()
	heard := s.heard.Load()
	silence := g.now() - time.Duration(heard)
	next := heartbeat - silence
	switch {
	case silence >= 2*heartbeat:
		g.end(s, ending{code: schema.CloseHeartbeat})
		return
	case silence >= heartbeat:
		next = 2*heartbeat - silence
		if v.pinged != heard {
			v.pinged = heard
			s.ping(next)
		}
	}
	v.armed = s.current() == active
	if v.armed { // before that the login may be writing who it is
		v.until = s.proven().Expires
	}
	if v.armed && !v.until.IsZero() {
		left := time.Until(v.until)
		if left <= 0 {
			g.end(s, ending{code: schema.CloseTokenExpired})
			return
		}
		next = min(next, left)
	}
	v.timer.Reset(next)
}

// overtaken reports whether the timer does not know of the token's end: the session was not active
// when it was set, or has another token.
func (v *vigil) overtaken() bool { return !v.armed || !v.until.Equal(v.s.proven().Expires) }

// ping sends a WebSocket ping and waits for its pong beside the writer; the reader sees the pong. The
// session's end does not end it, but the connection's does: where a context ends while a ping is written the
// library cuts the connection, and the client would never read why its session is over.
func (s *session) ping(within time.Duration) {
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		s.conn.Ping(ctx)
	})
}

// control notes a ping or pong from the client, on the goroutine that reads; false where it sends
// too many. Once the session has ended, that is the writer, which waits for the client's goodbye.
func (s *session) control() bool {
	if s.current() == closed {
		return false
	}
	s.alive()
	if s.g.allow(s) {
		return true
	}
	s.g.metrics.drop(dropRate)
	if s.allowance.exhausted(s.g.config.Limits.Burst) {
		s.g.end(s, ending{code: schema.CloseRate})
	}
	return false
}
