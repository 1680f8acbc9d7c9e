package directory

import (
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Policy is a conflict policy: which of a uid's routes a login puts out.
type Policy struct{ name string }

// ParsePolicy reads the name of a policy.
func ParsePolicy(name string) (Policy, error) {
	switch name {
	case "levels", "single", "one_per_flag", "multi", "levels_reject_new", "single_reject_new", "one_per_flag_reject_new", "multi_reject_new":
		return Policy{name}, nil
	}
	return Policy{}, fmt.Errorf("policy %q is unknown", name)
}

func (p Policy) String() string { return p.name }

// Candidate is a login to be judged.
type Candidate struct {
	Route         schema.Route
	ResumeBoot    schema.BootID
	ResumeSession schema.SessionNum
	MaxSessions   int // of the uid; 0 is no limit
}

// Verdict is what a policy says to a login.
type Verdict uint8

// Removal is an existing route that a login puts out.
type Removal struct {
	Index int // in the existing routes
	Close schema.CloseCode
}
