package authority

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const (
	// leaveWithin bounds the handing over of all slots when the process ends.
	leaveWithin = 10 * time.Second
	// readyWithin is how long the next slots wait for those before them to be ready.
	readyWithin = time.Second
	// readyAsk is the time between two questions whether they are, readyTry how long one waits for its
	// answer: a few are lost before a successor counts as silent.
	readyAsk = 5 * time.Millisecond
	readyTry = readyWithin / 4
	// handAgain is the wait after a round in which no slot could be handed over.
	handAgain = 100 * time.Millisecond
)

// balance hands slots to workers that have fewer, once the membership has stood still and nobody is
// unowned.
func (w *Worker) balance(k *keeper) {
	settled := time.Since(k.still) >= k.rules.Settle() && len(k.unowned) == 0
	if !settled || !w.current() || len(k.live) < 2 || !w.holder.Trusted() || w.handing.Load() {
		return
	}
	moves := evenOut(w.Me(), k.live, w.shares(), w.mine())
	if len(moves) == 0 {
		return
	}
	w.handing.Store(true)
	w.spawn(func(ctx context.Context) {
		defer w.look()
		defer w.handing.Store(false)
		if moved, _ := w.handOver(ctx, moves); moved == 0 {
			_ = lease.Wait(ctx, handAgain)
		}
	})
}

// leave hands all slots to the other workers, a bounded number at a time, and serves on meanwhile.
// Without others, or without a proven lease, there is nothing to hand over: the slots end with the
// lease, which is resigned. A successor that has not answered at all gets no more: its slots would be
// unknown until its lease ends, while those of a resigned lease are claimed at once.
func (w *Worker) leave(ctx context.Context) {
	w.leaving.Store(true)
	w.holder.RenewNow() // nobody hands us a slot any more
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	var silent []schema.Process
	for ctx.Err() == nil && w.holder.Trusted() {
		w.follow(time.Now(), newClaiming()) // what was handed to us at the last moment
		others := slices.DeleteFunc(w.liveWorkers(), func(p schema.Process) bool {
			return p == w.Me() || slices.Contains(silent, p)
		})
		moves := handAll(others, w.shares(), w.mine())
		if len(moves) == 0 {
			return
		}
		moved := 0
		for some := range slices.Chunk(moves, inFlight) {
			n, mute := w.handOver(ctx, some)
			moved += n
			if len(mute) > 0 {
				silent = append(silent, mute...)
				break
			}
		}
		if moved == 0 && lease.Wait(ctx, handAgain) != nil {
			return
		}
	}
}

// handOver writes the successors into the keys of slots, and waits until they answer for them. It
// returns how many it could hand over, and the successors that have not answered.
func (w *Worker) handOver(ctx context.Context, moves []move) (handed int, silent []schema.Process) {
	var mu sync.Mutex
	var moved []schema.Target
	var running sync.WaitGroup
	for _, m := range moves {
		running.Go(func() {
			if target, ok := w.handOne(ctx, m); ok {
				mu.Lock()
				defer mu.Unlock()
				moved = append(moved, target)
			}
		})
	}
	running.Wait()
	return len(moved), w.awaitReady(ctx, moved)
}

// handOne writes the successor into a slot's key. From before the write the tenure decides nothing any
// more: the server may have taken it long before its answer is here. Where no answer comes, follow
// writes the key again.
func (w *Worker) handOne(ctx context.Context, m move) (schema.Target, bool) {
	slot := m.target.Slot
	t := w.held[slot].Load()
	if t == nil || t.target != m.target || !t.hand() {
		return schema.Target{}, false
	}
	fence, err := w.bucket.Claim(ctx, slot, m.target.Fence, m.to)
	if err != nil {
		w.log.Info("slot not handed over", "target", m.target.String(), "to", m.to.String(), "err", err)
		w.reread(subjects.SlotKey(slot))
		return schema.Target{}, false
	}
	handed := schema.Target{Slot: slot, Fence: fence, Authority: m.to}
	w.view.Claimed(handed)
	w.drop(t, handedOver)
	return handed, true
}

// awaitReady waits until the successors know all of the slots' routes, a second at the most. It gives
// those that have not answered in it.
func (w *Worker) awaitReady(ctx context.Context, moved []schema.Target) (silent []schema.Process) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	byOwner := map[schema.Process][]schema.LookupGroup{}
	for _, t := range moved {
		byOwner[t.Authority] = append(byOwner[t.Authority], schema.LookupGroup{Target: t, Seen: t.Fence})
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for owner, groups := range byOwner {
		asking.Go(func() {
			if w.askReady(ctx, owner, groups) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			silent = append(silent, owner)
		})
	}
	asking.Wait()
	return silent
}

// askReady asks a successor until it is ready, or ctx ends, and reports whether it has answered.
func (w *Worker) askReady(ctx context.Context, owner schema.Process, groups []schema.LookupGroup) (answered bool) {
	for {
		ready, heard := w.ready(ctx, owner, groups)
		answered = answered || heard
		if ready || lease.Wait(ctx, readyAsk) != nil {
			return answered
		}
	}
}

// ready asks a successor by a look-up of nobody: a slot that is ready would know of everybody.
func (w *Worker) ready(ctx context.Context, owner schema.Process, groups []schema.LookupGroup) (ready, heard bool) {
	data, err := schema.Marshal(&schema.Lookup{Groups: groups})
	if err != nil {
		return true, true // a bug; it must not hold up the others
	}
	ctx, cancel := context.WithTimeout(ctx, readyTry)
	defer cancel()
	m, err := w.nc.RequestWithContext(ctx, w.config.Prefix.Authority(owner, subjects.Lookup), data)
	if err != nil {
		return false, false
	}
	var answer schema.LookupAnswer
	if schema.Unmarshal(m.Data, &answer) != nil || len(answer.Groups) != len(groups) {
		return false, true
	}
	return !slices.ContainsFunc(answer.Groups, func(g schema.GroupAnswer) bool { return g.Code != schema.CodeOK || g.Rebuilding }), true
}

// current reports whether the view has heard of every fence that is known here. It has not, for a
// moment, of the slots that this worker has just handed over: it would count them as its own, and
// hand over as many again. What others have handed over unheard only makes this one hold back.
func (w *Worker) current() bool {
	for s := range schema.Slot(schema.Slots) {
		if t, highest, _ := w.view.Address(s); t.Fence < highest {
			return false
		}
	}
	return true
}

// shares counts the slots of each worker, as far as heard.
func (w *Worker) shares() map[schema.Process]int {
	shares := map[schema.Process]int{}
	for s := range schema.Slot(schema.Slots) {
		if t, ok := w.view.Target(s); ok {
			shares[t.Authority]++
		}
	}
	return shares
}

// mine gives the slots that are held here.
func (w *Worker) mine() (mine []schema.Target) {
	for i := range w.held {
		if t := w.held[i].Load(); t != nil {
			mine = append(mine, t.target)
		}
	}
	return mine
}
