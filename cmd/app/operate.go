package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// SlotsCmd shows who owns which slots.
type SlotsCmd struct {
	Asking
	All bool `name:"all" help:"A line for each slot, not one for each owner and state."`
}

// Run prints the slots, by owner and state or one by one, and names authorities that were silent.
func (c *SlotsCmd) Run(s *session) error {
	reply, err := query[schema.SlotsReply](s, "slots", struct{}{}, c.Timeout)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		err = printJSON(s.out, reply.Slots...)
	case c.All:
		err = printSlots(s, reply.Slots)
	default:
		err = printSlotGroups(s, reply.Slots)
	}
	if err == nil {
		err = silent(reply.Missing, "whose slots are shown as unreachable")
	}
	return err
}

// silent is errUnknown where authorities have not answered.
func silent(missing []schema.NodeID, so string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: no answer from %s, %s", errUnknown, join(missing), so)
}

func printSlots(s *session, slots []schema.SlotStatus) error {
	t := newTable(s.out, "SLOT", "OWNER", "STATE", "FENCE", "ROUTES", "HELD", "CAUSE", "OUTSTANDING")
	for _, slot := range slots {
		t.row(slot.Slot, slot.Owner, slot.State, slot.Fence, slot.Routes, ago(slot.HeldMS), slot.Cause, join(slot.Outstanding))
	}
	return t.flush()
}

// slotGroup are the slots of one owner in one state.
type slotGroup struct {
	owner       schema.NodeID
	state       schema.SlotState
	slots       []schema.Slot
	routes      int
	outstanding []schema.NodeID
}

func printSlotGroups(s *session, slots []schema.SlotStatus) error {
	var groups []*slotGroup
	for _, slot := range slots {
		i := slices.IndexFunc(groups, func(g *slotGroup) bool { return g.owner == slot.Owner && g.state == slot.State })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &slotGroup{owner: slot.Owner, state: slot.State})
		}
		g := groups[i]
		g.slots, g.routes = append(g.slots, slot.Slot), g.routes+slot.Routes
		for _, node := range slot.Outstanding {
			if !slices.Contains(g.outstanding, node) {
				g.outstanding = append(g.outstanding, node)
			}
		}
	}
	slices.SortFunc(groups, func(a, b *slotGroup) int { return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.state, b.state)) })
	t := newTable(s.out, "OWNER", "STATE", "SLOTS", "ROUTES", "OUTSTANDING", "WHICH")
	for _, g := range groups {
		t.row(g.owner, g.state, len(g.slots), g.routes, join(g.outstanding), ranges(g.slots))
	}
	return t.flush()
}

// ranges writes ascending slots as 0-3 7 9-12.
func ranges(slots []schema.Slot) string {
	var parts []string
	for i := 0; i < len(slots); {
		first := slots[i]
		for i++; i < len(slots) && slots[i] == slots[i-1]+1; i++ {
		}
		text := fmt.Sprint(first)
		if last := slots[i-1]; last != first {
			text += fmt.Sprintf("-%d", last)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func join[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = string(item)
	}
	return strings.Join(texts, " ")
}

// NodesCmd shows the processes of the mesh.
type NodesCmd struct{ Asking }

// Run prints a line for each process that the bucket names.
func (c *NodesCmd) Run(s *session) error {
	reply, err := query[schema.SlotsReply](s, "slots", struct{}{}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, reply.Processes...)
	}
	owned := make(map[schema.NodeID]int)
	for _, slot := range reply.Slots {
		owned[slot.Owner]++
	}
	t := newTable(s.out, "ROLE", "NODE", "STATE", "RENEWED", "SLOTS", "SESSIONS", "ADDRESSES", "VERSION", "BOOT")
	for _, p := range reply.Processes {
		slots, sessions := "", ""
		if p.Role == "gateway" {
			sessions = fmt.Sprint(p.Sessions)
		} else {
			slots = fmt.Sprint(owned[p.Node])
		}
		t.row(p.Role, p.Node, p.State, ago(p.RenewedMS), slots, sessions, join(p.Addresses), p.Version, p.Boot)
	}
	return t.flush()
}

// StatsCmd counts who is online.
type StatsCmd struct{ Asking }

// Run prints the sum, then a line for each gateway and flag.
func (c *StatsCmd) Run(s *session) error {
	reply, err := query[schema.StatsReply](s, "stats", struct{}{}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, reply)
	} else {
		fmt.Fprintf(s.out, "%d users, %d sessions\n", reply.Users, reply.Sessions)
		t := newTable(s.out, "NODE", "FLAG", "SESSIONS")
		for _, n := range reply.Nodes {
			t.row(n.Node, n.Flag, n.Sessions)
		}
		err = t.flush()
	}
	if err == nil {
		err = silent(reply.Missing, "whose slots are not counted")
	}
	return err
}

// ExplainCmd shows all that the authority holds of a user.
type ExplainCmd struct {
	Asking
	UID schema.UID `arg:"" name:"uid" help:"The user."`
}

// Run prints it.
func (c *ExplainCmd) Run(s *session) error {
	if err := c.UID.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	e, err := query[schema.Explanation](s, "explain", schema.ExplainCall{UID: c.UID}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, e)
	}
	fmt.Fprintf(s.out, "%s is of slot %d, owned by %s (boot %s) at fence %d: %s\n", printable(string(e.UID)), e.Slot, e.Owner, e.Boot, e.Fence, e.State)
	return printExplanation(s, &e)
}

func printExplanation(s *session, e *schema.Explanation) error {
	t := newTable(s.out, "ROUTE", "STATE", "DEVICE", "FLAG", "LEVEL", "NODE", "GEN", "SEQ", "ORDER", "CONNECTED", "ACTIVE", "TTL")
	for _, r := range e.Routes {
		t.row(r.Session, r.State, r.Device, r.Flag, r.Level, r.Node, r.Gen, r.Seq, fmt.Sprintf("%d/%d", r.Order.Fence, r.Order.N),
			ago(r.ConnectedMS), ago(r.ActiveMS), ago(r.TTLMS))
	}
	for _, tomb := range e.Tombstones {
		t.row(tomb.Session, tomb.Kind, "", "", "", tomb.Node, "", tomb.Seq, "", "", "", "")
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, no := range e.Refusals {
		since := (time.Duration(no.AgoMS) * time.Millisecond).Round(time.Millisecond)
		fmt.Fprintf(s.out, "refused %s ago: session %s of %s: %s %s\n", since, no.Session, no.Node, no.Code, printable(no.Why))
	}
	return nil
}
