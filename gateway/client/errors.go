package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	// ErrStopped is returned by Run, and by Ready from then on, when trying again makes no sense:
	// the gateway closed with a code that tells a client to stop, or refused the upgrade with 400
	// or 403. A LostError beside it in the chain says which.
	ErrStopped = errors.New("client stopped")
	// ErrRunning is returned by Run when another Run of the same Client has not ended.
	ErrRunning = errors.New("client is running already")
	// ErrNotConnected is returned by Send when there is no session at the moment.
	ErrNotConnected = errors.New("not connected")
	// ErrLost is returned by Send and Unwatch when the connection ended before the answer came:
	// what was asked for may or may not have been done.
	ErrLost = errors.New("connection ended before the answer")
)

// LostError says why a connection ended, or did not come about.
type LostError struct {
	Code       schema.CloseCode // schema.CloseAbnormal where no close frame came
	Status     int              // HTTP status of a refused upgrade, else 0
	Reason     string           // short English, from the gateway where it said one
	RetryAfter time.Duration    // the gateway's wish; 0 is none
	Err        error            // what lies below; may be nil
}

func (e *LostError) Error() string {
	what := e.Code.String()
	if e.Status != 0 {
		what = fmt.Sprintf("HTTP status %d", e.Status)
	}
	if e.Reason != "" && !strings.HasSuffix(what, "("+e.Reason+")") { // which may be all that the code says
		what += ": " + e.Reason
	}
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	return what
}

// Unwrap gives what lies below.
func (e *LostError) Unwrap() error { return e.Err }

// Action is what the client does next.
func (e *LostError) Action() schema.CloseAction {
	switch e.Status {
	case 0:
		return e.Code.Action()
	case 400, 403:
		return schema.ActionStop
	}
	return schema.ActionReconnect
}

// RefusedError is returned when the gateway answered a request with an error frame. errors.Is
// tells its code: errors.Is(err, schema.FrameNoBackend).
type RefusedError struct {
	Code       schema.FrameCode
	Message    string
	Retryable  bool
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap gives the code.
func (e *RefusedError) Unwrap() error { return e.Code }

func refused(f schema.ServerFrame) *RefusedError {
	return &RefusedError{Code: f.Code, Message: f.Message, Retryable: f.Retryable, RetryAfter: retryAfter(f)}
}

// retryAfter is the hint of an error frame, within bounds.
func retryAfter(f schema.ServerFrame) time.Duration {
	ms := min(max(f.RetryAfterMS, 0), retryAfterMost.Milliseconds())
	return time.Duration(ms) * time.Millisecond
}
