package swarm_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// What of a user's story is told: what led to the moment of interest.
const (
	storyBefore = 20 * time.Second
	storyAfter  = 2 * time.Second
)

// story tells what messages said of one user around a moment, a line a message, and which sessions
// the user's clients held. Look-ups are told where they say something new.
func (j *judge) story(uid schema.UID, at time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, slot %d:\n", uid, subjects.SlotOf(uid))
	before := ""
	for i := range j.events {
		e := &j.events[i]
		if e.at < at-storyBefore || e.at > at+storyAfter {
			continue
		}
		said := strings.Join(j.about(e, uid), "; ")
		if _, looked := e.msg.(*schema.LookupAnswer); looked && said == before {
			continue
		} else if looked {
			before = said
		}
		if said != "" {
			fmt.Fprintf(&b, "  %8.3fs %s\n", e.at.Seconds(), said)
		}
	}
	for _, p := range j.r.people {
		for _, v := range p.visits {
			if v.uid == uid {
				fmt.Fprintf(&b, "  person %d held %s from %.3fs to %.3fs, code %d\n", p.n, v.session, v.from.at.Seconds(), v.to.at.Seconds(), v.code)
			}
		}
	}
	return b.String()
}

// about tells what a message says of a user.
func (j *judge) about(e *event, uid schema.UID) (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	switch m := e.msg.(type) {
	case nil:
		if e.mark != "" {
			say("%s", e.mark)
		}
	case *schema.LookupAnswer:
		eachAnswer(e, m, func(u schema.UID, g *schema.GroupAnswer, routes []schema.Route) {
			if u == uid {
				say("look-up at %s: %s, rebuilding %v, suspect %v, %v", g.Target, g.Code, g.Rebuilding, g.Suspect, names(routes))
			}
		})
	case *schema.Sync:
		for _, r := range m.Routes {
			if r.UID == uid {
				say("sync of %s, seq %d, order %v, idle %v, to %s", name(m.Head.From, r.Session), r.Seq, r.Order, r.Idle, m.Head.Target)
			}
		}
		if len(m.Routes) == 0 && m.Head.Target.Slot == subjects.SlotOf(uid) {
			say("sync of nothing from %s to %s, last %v", m.Head.From, m.Head.Target, m.Last)
		}
	case *schema.SyncAnswer:
		req := e.request.msg.(*schema.Sync)
		for i, r := range req.Routes {
			if r.UID == uid {
				say("sync of %s answered %s %v", name(req.Head.From, r.Session), m.Head.Code, one(m.Verdicts, i))
			}
		}
		if len(req.Routes) == 0 && req.Head.Target.Slot == subjects.SlotOf(uid) {
			say("sync of nothing from %s answered %s", req.Head.From, m.Head.Code)
		}
	case *schema.Touch:
		for _, t := range m.Sessions {
			if l := j.find(m.Head.From, t.Session); l.route.UID == uid {
				say("touch of %s, idle %v, to %s", name(m.Head.From, t.Session), t.Idle, m.Head.Target)
			}
		}
	case *schema.TouchAnswer:
		req := e.request.msg.(*schema.Touch)
		for _, t := range req.Sessions {
			if l := j.find(req.Head.From, t.Session); l.route.UID == uid {
				say("touch of %s answered %s, exceptions %v", name(req.Head.From, t.Session), m.Head.Code, m.Exceptions)
			}
		}
	default:
		said = aboutLogins(e, uid)
	}
	return said
}

// aboutLogins is about for what begins and ends sessions.
func aboutLogins(e *event, uid schema.UID) (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	switch m := e.msg.(type) {
	case *schema.Register:
		for _, l := range m.Logins {
			if l.Route.UID == uid {
				say("register of %s, seq %d, to %s (settled %d, seen %d)", name(m.Head.From, l.Route.Session), l.Route.Seq, m.Head.Target, m.Head.Settled, m.Head.Seen)
			}
		}
	case *schema.RegisterAnswer:
		req := e.request.msg.(*schema.Register)
		for i, l := range req.Logins {
			if l.Route.UID == uid {
				say("register of %s answered %s", name(req.Head.From, l.Route.Session), result(m.Head, m.Results, i))
			}
		}
	case *schema.Commit:
		for _, c := range m.Entries {
			if c.UID == uid {
				say("commit of %s to %s, ends %v", name(m.Head.From, c.Session), m.Head.Target, c.Ends)
			}
		}
	case *schema.CommitAnswer:
		req := e.request.msg.(*schema.Commit)
		for i, c := range req.Entries {
			if c.UID == uid {
				say("commit of %s answered %s", name(req.Head.From, c.Session), result(m.Head, m.Results, i))
			}
		}
	case *schema.Unregister:
		for _, l := range m.Entries {
			if l.UID == uid {
				say("unregister of %s, seq %d, to %s", name(m.Head.From, l.Session), l.Seq, m.Head.Target)
			}
		}
	case *schema.UnregisterAnswer:
		req := e.request.msg.(*schema.Unregister)
		for i, l := range req.Entries {
			if l.UID == uid {
				say("unregister of %s answered %s %v", name(req.Head.From, l.Session), m.Head.Code, one(m.Results, i))
			}
		}
	case *schema.Kick:
		for _, k := range m.Entries {
			if k.UID == uid {
				say("kick of %s, fence %d, code %d", name(m.To, k.Session), k.Fence, k.Close)
			}
		}
	case *schema.KickAnswer:
		req := e.request.msg.(*schema.Kick)
		for i, k := range req.Entries {
			if k.UID == uid {
				say("kick of %s answered %v", name(req.To, k.Session), one(m.Results, i))
			}
		}
	}
	return said
}

// name is a session's name, short: the node, and enough of the boot.
func name(p schema.Process, s schema.SessionNum) string {
	id := string(s.Outside(p.Boot))
	return string(p.Node) + "/" + id[:4] + id[strings.IndexByte(id, '.'):]
}

func names(routes []schema.Route) (list []string) {
	for i := range routes {
		list = append(list, name(routes[i].Owner, routes[i].Session))
	}
	slices.Sort(list)
	return list
}

func result(h schema.AnswerHead, all []schema.LoginResult, i int) string {
	if i >= len(all) {
		return fmt.Sprintf("%s, differs %q, owner %s", h.Code, h.Differs, h.Owner)
	}
	return fmt.Sprintf("%s, order %v, conflicts %v", all[i].Code, all[i].Order, all[i].Conflicts)
}

// one gives the result at a place, none where the request was refused as a whole.
func one[R any](results []R, i int) []R {
	if i >= len(results) {
		return nil
	}
	return results[i : i+1]
}
