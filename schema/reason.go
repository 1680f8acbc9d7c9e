package schema

import (
	"fmt"
	"slices"
)

// Reason says why a presence changed. The set is closed; the zero value is none.
type Reason uint8

// The reasons.
const (
	ReasonConnect Reason = 1 + iota
	ReasonLeave
	ReasonTimeout
	ReasonKicked
	ReasonReplaced
	ReasonOwnerLost
	ReasonDrained
	ReasonExpired
	ReasonSlow
	ReasonOperator
	ReasonPolicy
	reasonEnd
)

var reasonNames = [...]string{"", "connect", "leave", "timeout", "kicked", "replaced", "owner_lost", "drained",
	"expired", "slow", "operator", "policy"}

func (r Reason) String() string {
	if r < reasonEnd {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// MarshalText gives the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a reason's name; one of a newer process reads as none.
func (r *Reason) UnmarshalText(b []byte) error {
	*r = Reason(max(0, slices.Index(reasonNames[:], string(b))))
	return nil
}
