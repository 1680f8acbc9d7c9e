package client

import (
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

var (
	// ErrTimeout is returned when a try ended without an answer: the request may have been carried
	// out or not. The same message may be sent again to the same target.
	ErrTimeout = errors.New("no answer in time")
	// ErrNoResponders is returned when nobody is subscribed to where the request went: it was not
	// carried out. The slot's key is being read again by then.
	ErrNoResponders = errors.New("nobody is there")
	// ErrDisconnected is returned when this process has no connection to NATS: nothing was sent.
	ErrDisconnected = errors.New("no connection to NATS")
	// ErrGone is returned when a gateway process is known to be gone, which ends the conflicts with
	// its sessions: its key is dead or says another boot, or three tries met nobody.
	ErrGone = errors.New("gateway process is gone")
	// ErrUnowned is returned when no living authority is known for a slot.
	ErrUnowned = errors.New("slot has no owner")
	// ErrStopped is returned when the Run of the client has ended.
	ErrStopped = errors.New("client has stopped")
	// ErrFull is returned when too much waits for one authority already: nothing was sent.
	ErrFull = errors.New("too many requests wait for this authority")
	// ErrAnswer is returned when an answer is not one to the request that was sent.
	ErrAnswer = errors.New("answer does not fit the request")
)

// errEncode marks a request that a caller has filled with what no message can hold: nothing was
// sent.
var errEncode = errors.New("request cannot be written")

// Refusal is an authority's answer that it did not carry out the request as a whole. errors.Is
// finds the sentinel of its code: schema.ErrMismatch, ErrUnavailable and so on.
type Refusal struct{ Head schema.AnswerHead }

func (r *Refusal) Error() string {
	h := r.Head
	s := fmt.Sprintf("%s answered %s", h.Target, h.Code)
	if h.Differs != "" {
		s += ": " + h.Differs + " differs"
	}
	if h.Owner != (schema.Target{}) {
		s += ", owner is " + h.Owner.String()
	}
	if h.Why != "" {
		s += ": " + h.Why
	}
	return s
}

// Unwrap gives the sentinel of the code.
func (r *Refusal) Unwrap() error { return r.Head.Code.Err() }

func misfit(got, want int) error {
	return fmt.Errorf("%w: %d results to %d entries", ErrAnswer, got, want)
}

// answered decides whether a process's own answer counts: it comes from p, which took the request.
func answered(h schema.ProcessHead, p schema.Process) error {
	if err := h.Code.Err(); err != nil {
		return fmt.Errorf("%s answered %s: %w: %s", h.From, h.Code, err, h.Why)
	}
	if h.From != p {
		return fmt.Errorf("%w: asked of %s, given by %s", ErrAnswer, p, h.From)
	}
	return nil
}
