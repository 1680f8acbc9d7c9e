package gateway

import (
	"fmt"
	"slices"

	"github.com/rollcall-mesh/rollcall/schema"
)

// watch begins to tell a client of other users: ok, then one presence frame that names all of
// them, then one at each change.
func (g *Gateway) watch(s *session, f schema.ClientFrame) {
	if code, why := g.refuseWatch(s, f.UIDs); code != "" {
		g.fail(s, f.ID, code, why, 0)
		return
	}
	uids := distinct(f.UIDs)
	if !g.watches.reserve(s, uids, g.config.Limits.Watches) {
		g.fail(s, f.ID, schema.FrameWatchLimit, fmt.Sprintf("at most %d users can be watched", g.config.Limits.Watches), 0)
		return
	}
	ok := func() {
		g.ok(s, f.ID)
		g.watches.begin(s, uids)
	}
	if !g.busy(s, ok) {
		g.fail(s, f.ID, schema.FrameInFlight, "too many requests without an answer", 0)
	}
}

// distinct gives each uid once, in order. A frame may name one as often as it has room for: each time
// would cost a look-up and all the user's devices in the answer.
func distinct(uids []schema.UID) []schema.UID {
	seen := make(map[schema.UID]struct{}, len(uids))
	return slices.DeleteFunc(uids, func(u schema.UID) bool {
		_, again := seen[u]
		seen[u] = struct{}{}
		return again
	})
}

func (g *Gateway) refuseWatch(s *session, uids []schema.UID) (code schema.FrameCode, why string) {
	if g.config.WatchOff {
		return schema.FrameWatchOff, "watching users is switched off here"
	}
	if len(uids) == 0 {
		return schema.FrameBadMessage, "uids is missing"
	}
	for _, u := range uids {
		if err := u.Check(); err != nil {
			return schema.FrameBadMessage, err.Error()
		}
		if !s.who.mayWatch(u) {
			return schema.FrameNotAllowed, fmt.Sprintf("user %q is not this client's to watch", string(u))
		}
	}
	return "", ""
}

// unwatch ends it.
func (g *Gateway) unwatch(s *session, f schema.ClientFrame) {
	g.watches.end(s, f.UIDs)
	g.ok(s, f.ID)
}
