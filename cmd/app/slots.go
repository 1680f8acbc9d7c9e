package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rollcall-mesh/rollcall/authority/lease"
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
		err = printSlots(s, &reply)
	default:
		err = printSlotGroups(s, &reply)
	}
	if err == nil {
		err = silent(reply.Missing, "whose slots are shown as unreachable")
	}
	return err
}

func printSlots(s *session, reply *schema.SlotsReply) error {
	t := newTable(s.out, "SLOT", "OWNER", "STATE", "FENCE", "ROUTES", "RENEWED", "MOVED", "CAUSE", "SYNCED", "OUTSTANDING")
	for _, slot := range reply.Slots {
		g := groupOf(slot)
		g.add(slot)
		t.row(slot.Slot, slot.Owner, g.text(), slot.Fence, slot.Routes, renewed(reply, slot.Owner), g.moved(), g.cause, g.progress(), andOthers(join(slot.Outstanding), slot.Awaited-len(slot.Outstanding)))
	}
	return t.flush()
}

func printSlotGroups(s *session, reply *schema.SlotsReply) error {
	var groups []*slotGroup
	for _, slot := range reply.Slots {
		of := groupOf(slot)
		i := slices.IndexFunc(groups, func(g *slotGroup) bool { return g.slotKind == of.slotKind })
		if i < 0 {
			i, groups = len(groups), append(groups, of)
		}
		groups[i].add(slot)
	}
	slices.SortFunc(groups, func(a, b *slotGroup) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.text(), b.text()))
	})
	t := newTable(s.out, "OWNER", "STATE", "SLOTS", "ROUTES", "RENEWED", "MOVED", "CAUSE", "SYNCED", "OUTSTANDING", "WHICH")
	for _, g := range groups {
		t.row(g.owner, g.text(), len(g.slots), g.routes, renewed(reply, g.owner), g.moved(), g.cause, g.progress(), g.counted(), ranges(g.slots))
	}
	return t.flush()
}

// slotKind is what the slots of a group have in common.
type slotKind struct {
	owner   schema.NodeID
	state   schema.SlotState
	suspect bool
}

// slotGroup are the slots of one owner in one state.
type slotGroup struct {
	slotKind
	slots       []schema.Slot
	routes      int
	synced      int                   // last chunks that came, over all slots
	awaited     int                   // and that did not
	outstanding map[schema.NodeID]int // those of them whose gateways are named
	since       int64                 // of the latest move, in ms ago
	cause       schema.SlotCause      // of that one
}

func groupOf(s schema.SlotStatus) *slotGroup {
	return &slotGroup{slotKind: slotKind{s.Owner, s.State, s.Suspect}, outstanding: map[schema.NodeID]int{}}
}

func (g *slotGroup) add(s schema.SlotStatus) {
	if len(g.slots) == 0 || s.HeldMS < g.since {
		g.since, g.cause = s.HeldMS, s.Cause
	}
	g.slots = append(g.slots, s.Slot)
	g.routes += s.Routes
	g.synced += s.Synced
	g.awaited += s.Awaited
	for _, node := range s.Outstanding {
		g.outstanding[node]++
	}
}

func (g *slotGroup) text() string {
	if g.suspect {
		return string(g.state) + ",suspect"
	}
	return string(g.state)
}

// moved is how long ago the latest slot came; of one whose owner does not say, nothing.
func (g *slotGroup) moved() string {
	if g.since == 0 && (g.cause == "" || g.cause == schema.CauseCorrupt) {
		return ""
	}
	return ago(g.since)
}

// progress is how many last chunks of gateways have come, of those that were awaited, while some are.
func (g *slotGroup) progress() string {
	if g.awaited == 0 && g.synced == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", g.synced, g.synced+g.awaited)
}

// counted names the gateways that are awaited, each with the number of slots that wait for it.
func (g *slotGroup) counted() string {
	var texts []string
	others := g.awaited
	for node, n := range g.outstanding {
		texts = append(texts, fmt.Sprintf("%s:%d", node, n))
		others -= n
	}
	slices.Sort(texts)
	return andOthers(strings.Join(texts, " "), others)
}

// andOthers adds to names that there are others, which no answer has named.
func andOthers(names string, others int) string {
	if others == 0 {
		return names
	}
	return names + " ..."
}

// renewed is the age of an owner's renewal; nothing where nobody owns.
func renewed(reply *schema.SlotsReply, owner schema.NodeID) string {
	for _, p := range reply.Processes {
		if p.Role == string(lease.Authority) && p.Node == owner {
			return ago(p.RenewedMS)
		}
	}
	return ""
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
