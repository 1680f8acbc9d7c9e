package authority

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const (
	// claimsInFlight bounds the claims that are under way. Slots beyond it wait until one is answered.
	claimsInFlight = 64
	// claimTimeout bounds one claim; whether an unanswered one was taken, the view or the next one finds.
	claimTimeout = 5 * time.Second
)

// claiming are the writes of this process into the keys of slots that nobody owns. They are made beside
// the claim loop, so that a bucket that is slow or silent keeps up nothing else; the loop alone begins
// them and takes their answers.
type claiming struct {
	underWay map[schema.Slot]struct{} // at most claimsInFlight, one a slot
	answers  chan schema.Target       // what was won, or a slot without a fence; has a place for each that is under way
	running  sync.WaitGroup
}

func newClaiming() *claiming {
	return &claiming{underWay: map[schema.Slot]struct{}{}, answers: make(chan schema.Target, claimsInFlight)}
}

// cause tells why a slot that the view says is ours came to us: by a claim whose answer is behind its
// notice, or by another's hand.
func (c *claiming) cause(s schema.Slot) schema.SlotCause {
	if _, underWay := c.underWay[s]; underWay {
		return schema.CauseClaimed
	}
	return schema.CauseHanded
}

// claim begins to claim the slots that nobody owns and that are this process's turn.
func (w *Worker) claim(ctx context.Context, k *keeper) {
	if !w.holder.Trusted() {
		return
	}
	c := k.claims
	for _, target := range w.wanted(k, time.Now()) {
		if len(c.underWay) == claimsInFlight {
			return
		}
		c.underWay[target.Slot] = struct{}{}
		c.running.Go(func() {
			won := w.claimOne(ctx, target)
			c.answers <- won
			if won.Fence > 0 { // one that failed is tried again at the next beat: it may fail as fast as it is asked
				w.look()
			}
		})
	}
}

// wanted gives the slots to claim now, as their keys stood when it was seen that nobody owns them, and
// keeps the book of who is unowned since when.
func (w *Worker) wanted(k *keeper, now time.Time) (wanted []schema.Target) {
	me := w.Me().Node
	for i := range w.held {
		s := schema.Slot(i)
		target, _, owned := w.view.Address(s)
		if owned || w.held[s].Load() != nil {
			delete(k.unowned, s)
			continue
		}
		since, known := k.unowned[s]
		if !known {
			since = now
			k.unowned[s] = now
		}
		if _, underWay := k.claims.underWay[s]; !underWay && claims(me, k.live, s, now.Sub(since)) {
			wanted = append(wanted, target)
		}
	}
	return wanted
}

// claimOne returns the target with the fence won, or none. It names the revision at which the key was
// unowned, not that of the moment: the view may have learnt of an owner meanwhile, and a claim at that
// one's revision would take the slot from the living.
func (w *Worker) claimOne(ctx context.Context, unowned schema.Target) schema.Target {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	me, s := w.Me(), unowned.Slot
	fence, err := w.bucket.Claim(ctx, s, unowned.Fence, me)
	switch {
	case err == nil:
		return schema.Target{Slot: s, Fence: fence, Authority: me}
	case errors.Is(err, lease.ErrConflict):
		w.reread(subjects.SlotKey(s))
	default:
		w.log.Debug("claim failed", "slot", s, "err", err)
	}
	return schema.Target{Slot: s}
}

// claimed takes the answers that have come since the last look, and takes up the slots that were won.
// A claim was decided by a view that may be old by now: where the key is known to have been written
// again since, it says whose the slot is, and follow does what it says.
func (w *Worker) claimed(c *claiming, now time.Time) {
	for {
		select {
		case won := <-c.answers:
			delete(c.underWay, won.Slot)
			key, _, _ := w.view.Address(won.Slot)
			if won.Fence > 0 && (key.Fence < won.Fence || key == won) {
				w.take(won, now, schema.CauseClaimed)
			}
		default:
			return
		}
	}
}
