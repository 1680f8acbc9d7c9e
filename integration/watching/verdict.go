package watching

import (
	"fmt"
	"strings"

	"github.com/rollcall-mesh/rollcall/delivery"
)

// Verdict says what onlookers were told, and what of it they should not have been.
type Verdict struct {
	Frames, Users int      // that they were told in, and of
	Wrong         []string // views that are not the truth
	Back          []string // stamps that went back
	Invented      []string // comings and goings of users who stayed as they were
}

// Judge compares all that onlookers see with what a look-up has found.
func Judge(onlookers []*Onlooker, found []delivery.Found) (v Verdict) {
	for _, o := range onlookers {
		o.mu.Lock()
		v.Frames, v.Users = v.Frames+o.frames, v.Users+o.users
		v.Wrong = append(v.Wrong, o.wrongLocked(found)...)
		v.Back, v.Invented = append(v.Back, o.back...), append(v.Invented, o.invented...)
		o.mu.Unlock()
	}
	return v
}

// Fair reports whether there is nothing to say against what was told.
func (v Verdict) Fair() bool { return len(v.Wrong)+len(v.Back)+len(v.Invented) == 0 }

// String names the first of each kind.
func (v Verdict) String() string {
	few := func(list []string) string { return strings.Join(list[:min(len(list), 20)], "\n") }
	return fmt.Sprintf("%d frames that named %d users\n%d views are wrong:\n%s\n%d stamps went back:\n%s\n%d were invented:\n%s",
		v.Frames, v.Users, len(v.Wrong), few(v.Wrong), len(v.Back), few(v.Back), len(v.Invented), few(v.Invented))
}
