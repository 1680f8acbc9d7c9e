package subjects

import (
	"strconv"

	"github.com/rollcall-mesh/rollcall/schema"
)

// SlotOp is an operation that a slot's authority serves on the slot's own subject.
type SlotOp string

// The operations of a slot.
const (
	Register   SlotOp = "register"
	Commit     SlotOp = "commit"
	Unregister SlotOp = "unregister"
	Touch      SlotOp = "touch"
	Sync       SlotOp = "sync"
	Remove     SlotOp = "remove"
)

// Slot is where a slot's authority serves op: slot.<slot>.<fence>.<op>. The fence stands in the
// address, so that a deposed authority is not subscribed to what goes to its successor.
func (p Prefix) Slot(s schema.Slot, fence schema.Revision, op SlotOp) string {
	return p.join("slot", slotText(s), strconv.FormatUint(uint64(fence), 10), string(op))
}

// SlotAll is what the authority of a slot at a fence subscribes to.
func (p Prefix) SlotAll(s schema.Slot, fence schema.Revision) string {
	return p.Slot(s, fence, "*")
}

// ParseSlot reads the subject of a slot operation.
func (p Prefix) ParseSlot(subject string) (s schema.Slot, fence schema.Revision, op SlotOp, ok bool) {
	parts, ok := p.split(subject, "slot", 4)
	if !ok {
		return 0, 0, "", false
	}
	s, ok = parseSlotText(parts[1])
	f, err := strconv.ParseUint(parts[2], 10, 64)
	if !ok || err != nil || strconv.FormatUint(f, 10) != parts[2] || parts[3] == "" {
		return 0, 0, "", false
	}
	return s, schema.Revision(f), SlotOp(parts[3]), true
}

func slotText(s schema.Slot) string { return strconv.Itoa(int(s)) }

// parseSlotText reads a slot's number in its one form.
func parseSlotText(text string) (schema.Slot, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= schema.Slots || slotText(schema.Slot(n)) != text {
		return 0, false
	}
	return schema.Slot(n), true
}
