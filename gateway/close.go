package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// closeWait bounds a goodbye: what still waits for the client, the hint, the close frame and the
// client's own.
const closeWait = 2 * time.Second

// ending is how a session ends, as its client sees it.
type ending struct {
	code   schema.CloseCode
	reason string              // short English; the code's meaning where empty
	untold *schema.ServerFrame // the connected frame, where the client does not know yet that it was in (kick.go)
	hint   *schema.ServerFrame // the error frame before the close frame, which says more than the code
	gone   bool                // the client has left, with or without a goodbye: it is told nothing
}

// lost is the end of a session whose connection broke. A client's own close frame ends it as a bye,
// whatever its code.
func lost() ending { return ending{code: schema.CloseAbnormal, gone: true} }

// withHint adds an error frame that says more than the code.
func (e ending) withHint(code schema.FrameCode, retryAfter time.Duration) ending {
	e.hint = &schema.ServerFrame{
		Type: schema.TypeError, Code: code, Message: e.text(), Close: e.code, RetryAfterMS: retryAfter.Milliseconds(),
		Retryable: e.code.Action() == schema.ActionReconnect,
	}
	return e
}

// text is the close reason: valid UTF-8 of at most schema.MaxCloseReason bytes.
func (e ending) text() string {
	if e.reason == "" {
		return e.code.Meaning()
	}
	return schema.Cut(e.reason, schema.MaxCloseReason)
}

// reasons is what watchers are told of a session's end; what is not listed is a leave.
var reasons = map[schema.CloseCode]schema.Reason{
	schema.CloseGoingAway:    schema.ReasonDrained,
	schema.CloseHeartbeat:    schema.ReasonTimeout,
	schema.CloseSlow:         schema.ReasonSlow,
	schema.CloseMeshLost:     schema.ReasonOwnerLost,
	schema.CloseTokenExpired: schema.ReasonExpired,
	schema.CloseKicked:       schema.ReasonKicked,
	schema.CloseReplaced:     schema.ReasonReplaced,
	schema.CloseRefused:      schema.ReasonPolicy,
	schema.CloseRemoved:      schema.ReasonOperator,
}

func (e ending) why() schema.Reason {
	if r, ok := reasons[e.code]; ok {
		return r
	}
	return schema.ReasonLeave
}

// displaced reports whether another login has put the session out.
func (e ending) displaced() bool {
	return e.code == schema.CloseKicked || e.code == schema.CloseReplaced
}

// end ends a session. Before it returns, the outbox is sealed, the session is out of its slot and
// of the registry, and its unregister is queued; the writer closes the socket after that. False
// where the session had ended before.
func (g *Gateway) end(s *session, e ending) bool {
	before := s.close(e)
	if before == closed {
		return false
	}
	s.cancel()
	s.poke()
	if before == pending || before == active {
		g.slots[s.slot].remove(s)
		g.registry.remove(s.num)
		if before == active && e.displaced() {
			g.leaveLater(s)
		} else {
			g.leave(s)
		}
	}
	g.metrics.closed(e.code)
	return true
}

// bye writes the last words and closes the connection. Only the writer calls it, last of all.
func (s *session) bye(e ending) {
	defer s.wire.Close()
	if e.gone {
		s.conn.CloseNow()
		return
	}
	s.wire.endBy(time.Now().Add(closeWait))
	for _, f := range [...]*schema.ServerFrame{e.untold, e.hint} {
		if f != nil {
			s.conn.Write(context.Background(), s.frameKind(), encode(s.enc, *f))
		}
	}
	s.conn.Close(websocket.StatusCode(e.code), e.text())
}

// endingOf tells how a session ends whose reader got an error. The library has answered a close
// frame, and has closed with 1002 and 1009 itself where it found the fault.
func endingOf(err error) ending {
	var peer websocket.CloseError
	var broken net.Error
	switch {
	case errors.As(err, &peer):
		return ending{code: schema.CloseBye, gone: true}
	case errors.Is(err, websocket.ErrMessageTooBig):
		return ending{code: schema.CloseTooBig}
	case errors.Is(err, errBudget):
		return ending{code: schema.ClosePolicy, reason: "message of too many frames"}
	case errors.As(err, &broken), isOneOf(err, net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe,
		context.DeadlineExceeded, context.Canceled):
		return lost()
	}
	return ending{code: schema.CloseProtocol}
}

func isOneOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
