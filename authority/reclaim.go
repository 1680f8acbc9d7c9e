package authority

import (
	"context"
	"errors"
	"fmt"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Fences grow, even when a server loses what it had not yet synced to disk and hands out old
// revisions again. Whoever asks names the highest fence it has seen of the slot; an authority told
// of one above its own either was deposed without having heard of it, or holds a fence that was
// handed out a second time, and must lift it.

// mostRewrites bounds the writes that lift one slot's fence. A larger gap is closed in one step where keys
// have shown such revisions here: the bucket is an old copy. In a young bucket messages are believed too,
// in an old one they have a corrupt number.
const mostRewrites = lease.MostAhead

// overtaken answers a request that has seen a higher fence than the one held here.
func (w *Worker) overtaken(answer schema.AnswerHead, seen schema.Revision) schema.AnswerHead {
	slot := answer.Target.Slot
	if !w.view.Saw(slot, seen) {
		w.meter.corrupt.Inc()
		w.log.Error("a request names a fence far above the bucket's revisions; where the bucket was restored from an old copy, delete it, and it forms anew above all", "slot", slot, "seen", seen, "own", answer.Target.Fence)
		answer.Code = schema.CodeBad
		answer.Why = fmt.Sprintf("seen %d of slot %d, at fence %d, is too far above the bucket's revisions", seen, slot, answer.Target.Fence)
		return answer
	}
	w.reread(subjects.SlotKey(slot))
	w.look()
	answer.Code = schema.CodeRetry
	return answer
}

// lift has reclaim run beside the claim loop, once at a time for each slot.
func (w *Worker) lift(slot schema.Slot, seen schema.Revision) {
	w.beside("lift "+subjects.SlotKey(slot), func(ctx context.Context) (changed bool) {
		w.reclaim(ctx, slot, seen)
		return false // a notice tells of what was written
	})
}

// reclaim writes the key of a slot that it leaves to us, at a fence below one already seen, again until
// its revision is above all that was seen. The next look at the view takes the slot up, with an empty
// directory; where a read or a write fails here, it comes back to this.
func (w *Worker) reclaim(ctx context.Context, slot schema.Slot, seen schema.Revision) {
	if !w.holder.Trusted() {
		return
	}
	w.lifted[slot].Store(true) // before the notice tells that it is
	fence, err := w.bucket.Lift(ctx, slot, seen, mostRewrites, w.Me())
	if err == nil {
		w.log.Warn("fence lifted: a NATS server has lost writes, or did not answer one", "slot", slot, "fence", fence, "seen", seen)
		return
	}
	w.lifted[slot].Store(false)
	top := w.view.Top()
	switch {
	case errors.Is(err, lease.ErrFar) && (seen <= top+lease.MostAhead || w.view.Young()):
		w.jump(ctx, max(seen, top))
	case errors.Is(err, lease.ErrFar):
		w.giveUp(slot, seen)
	default:
		w.log.Warn("slot not reclaimed", "slot", slot, "seen", seen, "err", err)
	}
	w.reread(subjects.SlotKey(slot))
}

// giveUp tells of a slot that cannot be served, once until it is taken up after all. Each look at the
// view tries it again all the same: an operator may have deleted the bucket.
func (w *Worker) giveUp(slot schema.Slot, seen schema.Revision) {
	if w.corrupt[slot].Swap(true) {
		return
	}
	w.meter.corrupt.Inc()
	w.log.Error("slot cannot be served: a fence of it was told of that is far above the bucket's revisions; delete the bucket, and it forms anew above all revisions", "slot", slot, "seen", seen)
}

// jump moves the bucket's revisions above all that was seen, in one step. It empties the bucket: whoever
// lives writes anew what he holds, as he does where somebody has deleted it.
func (w *Worker) jump(ctx context.Context, seen schema.Revision) {
	if err := w.bucket.Jump(ctx, seen+1); err != nil {
		w.log.Warn("revisions not moved", "above", seen, "err", err)
		return
	}
	w.log.Warn("revisions of the bucket moved above those of the one before, or of its lost tail", "above", seen)
}
