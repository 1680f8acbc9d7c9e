package gateway

import (
	"fmt"
	"slices"

	"github.com/rollcall-mesh/rollcall/schema"
)

// watch begins to tell a client of other users: ok, then one presence frame that names all of
// them, then one whenever some have changed.
func (g *Gateway) watch(s *session, f schema.ClientFrame) {
	if g.config.WatchOff {
		g.fail(s, f.ID, schema.FrameWatchOff, "watching users is switched off here", 0)
		return
	}
	uids := distinct(f.UIDs)
	if code, why := g.checkWatch(uids); code != "" {
		g.fail(s, f.ID, code, why, 0)
		return
	}
	if !g.inTurn(s, func(giveBack func()) { g.watchAllowed(s, f.ID, uids, giveBack) }) {
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

func (g *Gateway) checkWatch(uids []schema.UID) (code schema.FrameCode, why string) {
	switch {
	case len(uids) == 0:
		return schema.FrameBadMessage, "uids is missing"
	case len(uids) > g.config.Limits.Watches:
		return schema.FrameWatchLimit, g.watchLimit()
	}
	for _, u := range uids {
		if err := u.Check(); err != nil {
			return schema.FrameBadMessage, err.Error()
		}
	}
	return "", ""
}

func (g *Gateway) watchLimit() string {
	return fmt.Sprintf("at most %d users can be watched", g.config.Limits.Watches)
}

// watchAllowed watches uids if the client may, and has room for them.
func (g *Gateway) watchAllowed(s *session, id string, uids []schema.UID, giveBack func()) {
	refusal := g.forbidden(s, uids)
	giveBack()
	if refusal != nil {
		refusal.Type, refusal.ID = schema.TypeError, id
		g.reply(s, *refusal)
		return
	}
	topics := g.watches.reserve(s, uids, g.config.Limits.Watches)
	if topics == nil {
		g.fail(s, id, schema.FrameWatchLimit, g.watchLimit(), 0)
		return
	}
	g.ok(s, id)
	g.watches.begin(g.base, s, topics) // not the session's: others may be waiting for what it finds out
}

// unwatch ends it.
func (g *Gateway) unwatch(s *session, f schema.ClientFrame) {
	end := func(giveBack func()) {
		g.watches.end(s, f.UIDs)
		giveBack()
		g.ok(s, f.ID)
	}
	if s.atRest() {
		end(func() {}) // it has taken no place
	} else if !g.inTurn(s, end) {
		g.fail(s, f.ID, schema.FrameInFlight, "too many requests without an answer", 0)
	}
}

// inTurn does what a watch, unwatch or refresh asks beside the reader, once those before it are done; false
// where the client has too much under way. Only the reader calls it.
func (g *Gateway) inTurn(s *session, work func(giveBack func())) bool {
	before, mine := s.turn, make(chan struct{})
	begun := g.busy(s, func(giveBack func()) {
		defer close(mine)
		if before != nil {
			<-before
		}
		work(giveBack)
	})
	if begun {
		s.turn = mine
	}
	return begun
}

// atRest reports whether no watch or unwatch is under way. Only the reader calls it.
func (s *session) atRest() bool {
	if s.turn == nil {
		return true
	}
	select {
	case <-s.turn:
		return true
	default:
		return false
	}
}
