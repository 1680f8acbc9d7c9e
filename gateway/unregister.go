package gateway

import (
	"context"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// farewell is a session's end that its authority has not acknowledged yet. It goes to the very
// target that was last told of the session, since no other directory ever was, and is repeated
// there until one of
//
//   - the target has answered;
//   - the slot has another owner, or the same one at another fence: the directory is gone;
//   - it is a TTL old: the route has expired;
//   - the life is over: the boot's routes count for nothing.
type farewell struct {
	schema.Leave
	session *session
	since   time.Duration // by the gateway's clock
}

// leave queues a session's unregister. It never waits and never fails; hellos are refused while
// too many are queued.
func (g *Gateway) leave(s *session) {
	if l, to, last, ok := s.lastWord(); ok {
		l.leaves.add(to, last)
	}
}

// commitWait is how long the unregister of a session waits that another login has put out. That
// login's commit takes the route out in the step in which its own comes in; an unregister that
// came before it would show the user offline in between. Where no commit comes, it ends the route.
const commitWait = time.Second

// leaveLater is leave for a displaced session. A drain waits for it too: a gateway's end takes the
// route out as an unregister does, and must not come before that commit either.
func (g *Gateway) leaveLater(s *session) {
	if l, to, last, ok := s.lastWord(); ok {
		l.leaves.addLater(commitWait, to, last)
	}
}

// sendLeaves tells one target of ended sessions, and gives those back that it did not settle.
func (g *Gateway) sendLeaves(ctx context.Context, l *life, to schema.Target, batch []farewell) (again []farewell) {
	if g.overtaken(to) {
		for _, f := range batch {
			f.session.answered(l, f.Seq)
		}
		return nil
	}
	entries := make([]schema.Leave, len(batch))
	for i, f := range batch {
		entries[i] = f.Leave
	}
	codes, err := g.mesh.Unregister(ctx, to, l.me, entries)
	if err != nil {
		g.log.Debug("unregister not answered", "target", to.String(), "sessions", len(batch), "err", err)
	}
	ttl := g.view.Config().TTL()
	for i, f := range batch {
		switch {
		case err == nil && codes[i] == schema.CodeOldSeq:
			f.session.answered(l, f.Seq)
			f.Seq = f.session.redraw()
		case err == nil && codes[i] != schema.CodeRetry:
			f.session.answered(l, f.Seq)
			continue
		}
		if g.now()-f.since >= ttl {
			g.metrics.drop(dropLeave)
			f.session.answered(l, f.Seq)
			continue
		}
		again = append(again, f)
	}
	return again
}

// overtaken reports whether the slot is known to have another owner or fence than a target.
func (g *Gateway) overtaken(t schema.Target) bool {
	now, ok := g.view.Target(t.Slot)
	return ok && now.Differs(t) != "" && now.Fence >= t.Fence
}
