package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Claim writes me into a slot's key that stands at seen (0: it was never written) and gives the
// revision, which is the slot's fence. A claim whose answer was lost is found again: the key names
// me at a revision above seen. It returns ErrConflict when the key stands elsewhere, or another
// write of it is on its way; any other error says nothing about whether the claim was taken, and
// the same call may be repeated.
func (b *Bucket) Claim(ctx context.Context, s schema.Slot, seen schema.Revision, me schema.Process) (schema.Revision, error) {
	key := subjects.SlotKey(s)
	fence, err := b.swap(ctx, key, schema.SlotValue(me), seen)
	if err == nil {
		return fence, nil
	}
	e, readErr := b.read(ctx, key)
	if readErr != nil {
		return 0, errors.Join(err, readErr)
	}
	if owner, ok := slotOwner(e); ok && owner == me && e.rev > seen {
		return e.rev, nil
	}
	return 0, err
}

// Lift writes a slot's key that names me again, from wherever it stands, until its revision is above
// one already seen; with no write where it is. It returns ErrConflict when the key names another, or
// another writes it; ErrFar, and writes nothing, when that would take more than most writes.
func (b *Bucket) Lift(ctx context.Context, s schema.Slot, above, most schema.Revision, me schema.Process) (schema.Revision, error) {
	key := subjects.SlotKey(s)
	e, err := b.read(ctx, key)
	if err != nil {
		return 0, err
	}
	if owner, _ := slotOwner(e); owner != me {
		return 0, fmt.Errorf("lift %s: %w: it names %s", key, ErrConflict, owner)
	}
	last, err := b.last(ctx)
	if err != nil {
		return 0, err
	}
	if above > last+most {
		return 0, fmt.Errorf("lift %s above %d, from %d: %w", key, above, last, ErrFar)
	}
	fence := e.rev
	for fence <= above {
		if fence, err = b.Claim(ctx, s, fence, me); err != nil {
			return 0, err
		}
	}
	return fence, nil
}

// last is the revision of the last write to the bucket.
func (b *Bucket) last(ctx context.Context) (schema.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	info, err := b.stream.Info(ctx)
	b.reach.heard(err)
	if err != nil {
		return 0, b.explain("look at", "", err)
	}
	return schema.Revision(info.State.LastSeq), nil
}

func slotOwner(e entry) (schema.Process, bool) {
	var v schema.SlotValue
	if e.marker || json.Unmarshal(e.data, &v) != nil {
		return schema.Process{}, false
	}
	p := schema.Process(v)
	return p, p.Check() == nil
}

// Kill ends a member's lease (rule 4): state dead at the revision seen, so that there is one
// winner and a renewal that comes late fails. It returns ErrConflict when the member has moved on.
func (b *Bucket) Kill(ctx context.Context, m Member) error {
	value := m.Value
	value.State = schema.StateDead
	_, err := b.swap(ctx, m.Role.key(m.Process.Node), value, m.Revision)
	return err
}
