package schema

import (
	"errors"
	"fmt"
	"slices"
)

// Code says how one request, or one entry of it, ended. The set is closed: a code of a newer
// process reads as CodeInternal.
type Code uint8

// The codes.
const (
	CodeOK          Code = iota
	CodeConflict         // routes stand in the way: end them, then commit with the token given
	CodeMismatch         // the target differs: Differs names the field, Owner the owner known there
	CodeMoved            // the slot was handed over: Owner is its new target
	CodeRetry            // cannot be judged yet: an unknown boot, or one not yet known to be gone
	CodeBusy             // another login of the uid is in the way for the moment
	CodeOldSeq           // the seq is not above the highest seen: draw a new one
	CodeSuperseded       // the session was put out by another: close it with Close
	CodeRefused          // the policy says no: Close and Why tell
	CodeDamped           // too many replacements of one device: wait RetryAfter
	CodeDeadToken        // the token names no pending login: begin again with register
	CodeUnknown          // no such session here: sync it
	CodeUnavailable      // this authority cannot serve that now: wait RetryAfter
	CodeStale            // the fence is below one already known: it was not obeyed
	CodeBad              // the request breaks a rule: Why tells
	CodeInternal         // a fault of the answering process
	codeEnd
)

var codeNames = [...]string{"ok", "conflict", "mismatch", "moved", "retry", "busy", "old_seq", "superseded",
	"refused", "damped", "dead_token", "unknown", "unavailable", "stale", "bad", "internal"}

func (c Code) String() string {
	if c < codeEnd {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// MarshalText gives the code's name.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a code's name; one of a newer process reads as CodeInternal.
func (c *Code) UnmarshalText(b []byte) error {
	*c = CodeInternal
	if i := slices.Index(codeNames[:], string(b)); i >= 0 {
		*c = Code(i)
	}
	return nil
}

func (c *coder) code(what string, v *Code) { enum(c, what, v, codeEnd, CodeInternal) }

// The errors that codes stand for.
var (
	// ErrMismatch is returned when a request went to a process that does not own the slot at the
	// fence addressed.
	ErrMismatch = errors.New("target does not own the slot")
	// ErrRetry is returned when the request could not be judged yet, or was in the way of another:
	// the same may succeed a moment later.
	ErrRetry = errors.New("not now, try again")
	// ErrOldSeq is returned when the operation's owner seq was overtaken.
	ErrOldSeq = errors.New("owner seq is not above the highest seen")
	// ErrSuperseded is returned when another session has put this one out.
	ErrSuperseded = errors.New("session was superseded")
	// ErrRefused is returned when the conflict policy refuses a login.
	ErrRefused = errors.New("refused by policy")
	// ErrDeadToken is returned when a commit's token names no pending login.
	ErrDeadToken = errors.New("token names no pending login")
	// ErrUnknown is returned when the authority has no such session.
	ErrUnknown = errors.New("session is unknown there")
	// ErrUnavailable is returned when nobody could serve the request in time.
	ErrUnavailable = errors.New("unavailable")
	// ErrStale is returned when a request's fence is below one already known.
	ErrStale = errors.New("fence is below one already known")
	// ErrBad is returned when a request breaks a rule.
	ErrBad = errors.New("bad request")
	// ErrInternal is returned when the answering process failed, or gave a code unknown here.
	ErrInternal = errors.New("internal error")
)

// Err gives the sentinel that a code stands for; nil for CodeOK and CodeConflict, which are no
// failures.
func (c Code) Err() error {
	switch c {
	case CodeOK, CodeConflict:
		return nil
	case CodeMismatch, CodeMoved:
		return ErrMismatch
	case CodeRetry, CodeBusy, CodeDamped:
		return ErrRetry
	case CodeOldSeq:
		return ErrOldSeq
	case CodeSuperseded:
		return ErrSuperseded
	case CodeRefused:
		return ErrRefused
	case CodeDeadToken:
		return ErrDeadToken
	case CodeUnknown:
		return ErrUnknown
	case CodeUnavailable:
		return ErrUnavailable
	case CodeStale:
		return ErrStale
	case CodeBad:
		return ErrBad
	}
	return ErrInternal
}
