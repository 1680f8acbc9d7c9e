package lease

import (
	"encoding/json"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Role is what a process with a lease is.
type Role string

// The roles: each is the first part of its processes' keys.
const (
	Authority Role = subjects.AuthorityKeys
	Gateway   Role = subjects.GatewayKeys
)

func (r Role) key(n schema.NodeID) string {
	if r == Authority {
		return subjects.AuthorityKey(n)
	}
	return subjects.GatewayKey(n)
}

// Standing is what is known of one life of a process.
type Standing uint8

// The standings.
const (
	Unseen Standing = iota // the bucket never named it, as far as remembered: it may be newer than what was heard
	Living                 // its key names it
	Gone                   // its key is dead, deleted, names a later boot, or was absent for a whole lease: it never returns
)

func (s Standing) String() string { return [...]string{"unseen", "living", "gone"}[s] }

// Member is a process as its key shows it.
type Member struct {
	Role     Role
	Process  schema.Process
	Value    schema.ProcessValue
	Revision schema.Revision
	Quiet    time.Duration // since the revision last changed, by our own clock, while the bucket was in reach
}

// Alive reports whether the key says that the process lives.
func (m Member) Alive() bool { return m.Value.State != schema.StateDead }

// decodeProcess reads a process key's value; false where it is none of ours, or a marker. A key cannot
// tell of revisions that are not below its own: such a since is of a log that has lost its tail, and
// says nothing of the fences given out since.
func decodeProcess(e entry) (v schema.ProcessValue, ok bool) {
	if e.marker || json.Unmarshal(e.data, &v) != nil || v.Boot.Check() != nil {
		return schema.ProcessValue{}, false
	}
	if v.Since >= e.rev {
		v.Since = 0
	}
	return v, true
}
