package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// beat is how often slots are looked over, whatever the notices say.
const beat = 250 * time.Millisecond

// keeper is what the claim loop remembers from one look at the view to the next.
type keeper struct {
	rules   schema.Config
	unowned map[schema.Slot]time.Time // since when nobody owns it, by our clock
	claims  *claiming
	live    []schema.Process // the workers that may hold slots
	still   time.Time        // since when these are the same
}

// keepSlots makes what is held follow the view until ctx ends: it drops what has another owner,
// takes up what the bucket says is ours, claims what nobody owns, evens the shares out, ends the
// leases of processes that have fallen silent, and does what falls due with time.
func (w *Worker) keepSlots(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	k := keeper{rules: w.view.Config(), unowned: map[schema.Slot]time.Time{}, claims: newClaiming()}
	defer k.claims.running.Wait()
	for {
		if now := w.view.Config(); now != k.rules {
			k.rules = now
			w.configure()
		}
		if live := w.liveWorkers(); !slices.Equal(live, k.live) {
			k.live, k.still = live, time.Now()
		}
		w.claimed(k.claims, time.Now())
		w.follow(time.Now(), k.claims)
		w.claim(ctx, &k)
		if len(w.unlisted()) > 0 {
			w.listGateways()
		}
		w.balance(&k)
		w.beside("silent processes", w.reap)
		w.upkeep(ctx)
		select {
		case <-w.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// follow drops and takes up slots as the view says.
func (w *Worker) follow(now time.Time, claims *claiming) {
	for i := range w.held {
		s := schema.Slot(i)
		target, seen, owned := w.view.Address(s)
		held := w.held[s].Load()
		switch {
		case held == nil:
		case held.deposedBy(target):
			if target.Fence != held.target.Fence { // an older one: its log may give ours out a second time
				w.view.Saw(s, held.target.Fence+1)
			}
			w.drop(held, movedAway)
			held = nil
		case owned && seen > held.target.Fence:
			w.drop(held, overtaken)
			held = nil
		case held.isHanding() && !w.handing.Load():
			// Nobody knows whether the successor was written into the key, or still will be. Written once
			// more, the key names us under another fence, and the other write has lost.
			w.lift(s, held.target.Fence)
		}
		if held == nil && owned && target.Authority == w.Me() {
			w.take(target, now, claims.cause(s))
		}
	}
}

// liveWorkers gives the workers that may hold slots, by name.
func (w *Worker) liveWorkers() (live []schema.Process) {
	span := w.view.Config().Lease()
	for _, m := range w.view.Members(lease.Authority) {
		serving := m.Value.State == schema.StateServing || m.Value.State == schema.StateJoining
		if serving && m.Quiet < span {
			live = append(live, m.Process)
		}
	}
	return live
}

// take begins a tenure: an empty directory, then the subscription. A fence below one already seen, or
// at which another has held the slot, is lifted first. It does nothing where the slot is held already at
// that fence, or the connection does not take the subscription.
func (w *Worker) take(target schema.Target, now time.Time, cause schema.SlotCause) {
	if seen := w.view.Claimed(target); seen > target.Fence {
		w.lift(target.Slot, seen)
		return
	}
	if held := w.held[target.Slot].Load(); held != nil {
		if held.target.Fence >= target.Fence {
			return
		}
		w.drop(held, takenAnew)
	}
	t := newTenure(target, directory.New(target.Slot, target.Fence, w.settings()), now, now.Add(w.view.Config().Settle()))
	if t.cause = cause; w.lifted[target.Slot].Swap(false) {
		t.cause = schema.CauseRetaken
	}
	w.corrupt[target.Slot].Store(false)
	w.held[target.Slot].Store(t)
	sub, err := w.nc.ChanSubscribe(w.config.Prefix.SlotAll(target.Slot, target.Fence), w.loops[int(target.Slot)%len(w.loops)].Queue)
	if err != nil {
		w.log.Warn("slot not served", "target", target.String(), "err", fmt.Errorf("subscribe: %w", err))
		w.held[target.Slot].Store(nil)
		return
	}
	t.sub = sub
	w.meter.moved(string(t.cause))
}

func (w *Worker) settings() directory.Settings {
	c := w.view.Config()
	policy, err := directory.ParsePolicy(c.Policy)
	if err != nil {
		w.log.Error("policy of the mesh not known to this program, levels is used", "policy", c.Policy, "err", err)
		policy, _ = directory.ParsePolicy(schema.DefaultConfig().Policy)
	}
	return directory.Settings{Policy: policy, MaxSessions: c.MaxSessions, TTL: c.TTL(), Grace: c.Grace()}
}

// configure has the directories follow the mesh's settings, for what is decided from now on.
func (w *Worker) configure() {
	settings := w.settings()
	for i := range w.held {
		if t := w.held[i].Load(); t != nil {
			t.configure(settings)
		}
	}
	c := w.view.Config()
	w.log.Info("settings of the mesh changed", "policy", c.Policy, "max_sessions", c.MaxSessions, "grace", c.Grace(), "events", c.Events, "last_seen", c.LastSeen)
}

// listGateways reads, after the claims, which gateways may have sessions of the slots taken: every
// living one that was not yet without sockets when the fence was already known to it. It does so beside
// the claim loop; slots taken meanwhile are the next look's.
func (w *Worker) listGateways() {
	w.beside("gateways", func(ctx context.Context) (changed bool) {
		taken := w.unlisted()
		if err := w.view.Refresh(ctx); err != nil {
			w.log.Warn("gateways not read, the slots taken stay unknown until they are", "slots", len(taken), "err", err)
			return false
		}
		gateways := w.livingGateways()
		for _, t := range taken {
			t.await(gateways, w.youngUntil(t))
		}
		return true
	})
}

// unlisted gives the tenures that do not know yet which gateways to await.
func (w *Worker) unlisted() (taken []*tenure) {
	for i := range w.held {
		if t := w.held[i].Load(); t != nil && t.unlisted() {
			taken = append(taken, t)
		}
	}
	return taken
}

// gatewaysReturn is how long gateways may take to come back to a server that is up again: they try
// after 50 ms, then at most a second later, and write their keys at once.
const gatewaysReturn = 2 * time.Second

// youngUntil is until when a slot waits for the keys of gateways in a young bucket, however short the
// lease is; the past where the bucket is none. A slot that was handed over has waited with its former
// owner: what counts is for how long the gateways have had a bucket to write to.
func (w *Worker) youngUntil(t *tenure) time.Time {
	if w.fresh() || !w.view.Young() {
		return time.Time{}
	}
	from := t.since
	if t.cause == schema.CauseHanded {
		from = w.view.Heard()
	}
	return from.Add(max(w.view.Config().Settle(), gatewaysReturn))
}

// fresh reports whether the bucket is still the one that this process has made for itself. Once that is lost
// there are gateways with sockets, as anywhere else.
func (w *Worker) fresh() bool {
	found := w.found.Load()
	return w.config.Fresh && found != nil && found.Equal(w.view.Heard())
}

func (w *Worker) livingGateways() []lease.Member {
	return slices.DeleteFunc(w.view.Members(lease.Gateway), func(m lease.Member) bool { return !m.Alive() })
}

// Why a tenure ended; also the label of the metric.
const (
	movedAway  = "moved_away"  // the key names another owner or another fence, or nobody
	handedOver = "handed_over" // this worker has written its successor into the key
	takenAnew  = "taken_anew"
	overtaken  = "overtaken" // a higher fence was seen than its own
	lifeEnded  = "life_ended"
)

// drop ends a tenure: the directory is deleted the moment it is known that it is another's. Who
// still asks here is told the new owner for a while.
func (w *Worker) drop(t *tenure, why string) {
	if !w.held[t.target.Slot].CompareAndSwap(t, nil) {
		return // another has
	}
	t.end()
	w.meter.moved(why)
	w.log.Debug("slot dropped", "target", t.target.String(), "why", why)
	w.spawn(func(ctx context.Context) {
		_ = lease.Wait(ctx, tellMoved) // or the life has ended
		if err := t.sub.Unsubscribe(); err != nil {
			w.log.Debug("unsubscribe failed", "target", t.target.String(), "err", err)
		}
	})
}

// tellMoved is how long a former owner tells who asks it whom to ask instead.
const tellMoved = 5 * time.Second

func (w *Worker) dropAll() {
	for i := range w.held {
		if t := w.held[i].Load(); t != nil {
			w.drop(t, lifeEnded)
		}
	}
}

// upkeep does what falls due with time in each tenure. Locks are taken slot by slot and pass by
// pass, so that serving goes on between.
func (w *Worker) upkeep(ctx context.Context) {
	of := gateways{
		living: w.livingGateways,
		before: w.livingGateways(),
		gone:   func(g schema.Process) bool { return w.view.Standing(lease.Gateway, g) != lease.Living },
		bound:  w.view.Config().Settle(),
	}
	for i := range w.held {
		t := w.held[i].Load()
		for t != nil && t.upkeep(time.Now(), of, w.emit) && ctx.Err() == nil {
		}
	}
}

// reap ends the leases of processes whose key has stood still for a whole lease, by this process's
// own clock. One of all the workers wins the write; a zombie's next renewal then fails.
func (w *Worker) reap(ctx context.Context) (changed bool) {
	if !w.holder.Trusted() {
		return false
	}
	span := w.view.Config().Lease()
	for _, role := range []lease.Role{lease.Authority, lease.Gateway} {
		for _, m := range w.view.Members(role) {
			var err error
			switch {
			case m.Value.State != schema.StateDead && m.Quiet >= span:
				if err = w.bucket.Kill(ctx, m); err == nil {
					w.log.Warn("lease ended: its key has stood still", "role", role, "process", m.Process.String(), "quiet", m.Quiet)
					w.meter.endings.WithLabelValues(endedByLease).Inc()
				}
			case m.Value.State == schema.StateDead && m.Quiet >= buryAfter:
				err = w.view.Bury(ctx, m)
			}
			if err != nil && !errors.Is(err, lease.ErrConflict) {
				w.log.Warn("dead process not marked", "role", role, "process", m.Process.String(), "err", err)
			}
		}
	}
	return false // a notice tells of what was written
}

// buryAfter is when the key of a dead process is taken out of the bucket.
const buryAfter = 10 * time.Minute
