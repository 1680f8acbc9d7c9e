package directory

import (
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// maxHeld bounds the offlines that are held back, with those whose user has come back meanwhile. What
// does not fit is told at once.
const maxHeld = 4096

// grace holds the news back that a user has gone: who is back in time was never said to be offline.
// It is the events' alone: look-ups, conflicts and limits go by the records. It dies with the
// directory; the next owner of the slot tells watchers to look up again.
type grace struct {
	held map[schema.UID]*absence
	line []*absence // the first to leave first; those that are over stand among them
}

// absence is a user whose last route went without an event.
type absence struct {
	uid   schema.UID
	last  departure
	since time.Duration
	over  bool // the user is back
}

// hold keeps a user's last departure back; false where it has to be told at once.
func (g *grace) hold(uid schema.UID, last departure, now time.Duration) bool {
	if len(g.line) >= maxHeld {
		return false
	}
	if g.held == nil {
		g.held = map[schema.UID]*absence{}
	}
	a := &absence{uid: schema.UID(strings.Clone(string(uid))), last: last, since: now}
	g.held[a.uid] = a
	g.line = append(g.line, a)
	return true
}

// back ends an absence of which nobody was told; false where there is none.
func (g *grace) back(uid schema.UID) (last departure, ok bool) {
	a, ok := g.held[uid]
	if !ok {
		return departure{}, false
	}
	delete(g.held, uid)
	a.over = true
	return a.last, true
}

// overdue tells of those who have not come back in time. During a rebuild it waits: whoever it is
// about may be among the sessions that are still to be told of.
func (d *Directory) overdue(now time.Duration, work *int, events []schema.Event) []schema.Event {
	g := &d.grace
	for ; len(g.line) > 0 && *work > 0 && !d.rebuilding; *work-- {
		a := g.line[0]
		if !a.over && now < a.since+d.settings.Grace {
			break
		}
		g.line[0] = nil
		if g.line = g.line[1:]; len(g.line) == 0 {
			g.line = nil // the room of a bad hour goes with it
		}
		if !a.over {
			delete(g.held, a.uid)
			e := d.event(a.uid, schema.EventOffline, a.last, 0)
			e.Ago = now - a.since
			events = append(events, e)
		}
	}
	return events
}

// Held counts the users whose offline is held back.
func (d *Directory) Held() int { return len(d.grace.held) }
