package subjects

import (
	"slices"
	"strings"
)

// own are the first parts of all subjects that have a meaning in the mesh.
var own = [...]string{"slot", "authority", "gateway", "push", "kick", "revoke", "fallback", "event", "up", "presence", "sys", "auth"}

// Answerable reports whether a request may be answered where its sender says. Who may answer at all may
// publish to whatever subject a request names (allow_responses of the server's permissions), so that who
// asks could have a process write a key of the bucket for him, or speak on a subject of the mesh.
func (p Prefix) Answerable(reply string) bool {
	if reply == "" || strings.HasPrefix(reply, "$") {
		return false
	}
	if p != "" {
		return !strings.HasPrefix(reply, string(p)+".")
	}
	first, _, _ := strings.Cut(reply, ".")
	return !slices.Contains(own[:], first)
}
