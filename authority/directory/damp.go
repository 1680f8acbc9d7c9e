package directory

import (
	"hash/maphash"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	dampMost   = 5 // replacements of one device in dampSpan that go undamped
	dampSpan   = time.Minute
	dampFirst  = time.Second      // the first wait
	dampLast   = 30 * time.Second // the longest wait
	dampDevice = 256              // devices counted; beyond them replacements go undamped
)

// damper slows down two stubborn clients that replace each other for ever. It counts per device,
// under a hash: that two devices share one is as good as impossible, and costs one of them a wait.
type damper struct {
	fights map[uint64]*fight
	next   time.Duration // when expire looks again
}

// fight is one device that was replaced of late.
type fight struct {
	at    [dampMost]time.Duration // the latest replacements, oldest at n % dampMost
	n     int
	wait  time.Duration // the latest wait imposed; 0 where none was
	until time.Duration // its end
	paid  bool          // it was imposed since the latest replacement: after it the next login passes
}

func (f *fight) over(now time.Duration) bool {
	latest := f.at[(f.n-1)%dampMost]
	return now >= latest+dampSpan && now >= f.until
}

// full reports whether one replacement more would be too many.
func (f *fight) full(now time.Duration) bool {
	return f.n >= dampMost && now < f.at[f.n%dampMost]+dampSpan
}

// wait says how long a login that would replace its device has to wait, mostly 0. Each
// replacement after that makes the next wait twice as long, until the device has rested.
func (x *damper) wait(device uint64, now time.Duration) time.Duration {
	f := x.fights[device]
	switch {
	case f == nil || f.over(now):
		return 0
	case now < f.until:
		return f.until - now
	case f.paid || f.wait == 0 && !f.full(now):
		return 0
	}
	f.wait = min(max(2*f.wait, dampFirst), dampLast)
	f.until = now + f.wait
	f.paid = true
	return f.wait
}

// count notes a replacement.
func (x *damper) count(device uint64, now time.Duration) {
	f := x.fights[device]
	switch {
	case f == nil && len(x.fights) >= dampDevice:
		return
	case f == nil || f.over(now):
		f = &fight{}
		if x.fights == nil {
			x.fights = map[uint64]*fight{}
		}
		x.fights[device] = f
	}
	f.at[f.n%dampMost] = now
	f.n++
	f.paid = false
}

// expire forgets devices that have rested, once every span.
func (x *damper) expire(now time.Duration) {
	if now < x.next {
		return
	}
	x.next = now + dampSpan
	for device, f := range x.fights {
		if f.over(now) {
			delete(x.fights, device)
		}
	}
}

// device names a route's device for the damper.
func (d *Directory) device(r *schema.Route) uint64 {
	return maphash.Comparable(d.seed, struct {
		uid    schema.UID
		flag   schema.Flag
		device schema.DeviceID
	}{r.UID, r.Flag, r.Device})
}

// fights reports whether a login replaces a session other than the one that it continues.
func (c *Candidate) fights(existing []schema.Route, out []Removal) bool {
	for _, x := range out {
		if x.by == replace && !c.resumes(&existing[x.Index]) {
			return true
		}
	}
	return false
}
