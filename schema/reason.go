package schema

import "fmt"

// Reason says why a presence changed. The set is closed.
type Reason uint8

// The reasons.
const (
	ReasonConnect Reason = iota
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

var reasonNames = [...]string{"connect", "leave", "timeout", "kicked", "replaced", "owner_lost", "drained",
	"expired", "slow", "operator", "policy"}

func (r Reason) String() string {
	if r < reasonEnd {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// MarshalText gives the reason's name.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a reason's name.
func (r *Reason) UnmarshalText(b []byte) error {
	for i, name := range reasonNames {
		if name == string(b) {
			*r = Reason(i)
			return nil
		}
	}
	return fmt.Errorf("%w: reason %q", ErrMalformed, b)
}

// reason walks a reason; one from a newer process reads as ReasonLeave.
func (c *coder) reason(r *Reason) {
	number(c, r)
	if *r >= reasonEnd {
		*r = ReasonLeave
	}
}
