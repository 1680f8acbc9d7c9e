package gateway

import (
	"slices"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// deviceOf names a user's device, whatever its flag.
type deviceOf struct {
	uid    schema.UID
	device schema.DeviceID
}

// single begins the names of the policies under which a user has one session at most.
const single = "single"

// Find gives the route of a user's device where this gateway is sure of it without asking: the
// device is active here, the slot's present owner has acknowledged it, the gateway's lease is
// proven, and nothing else can be meant. So a device without a name is not found, and one without a
// flag only where the conflict policy makes it the user's only one. By is the owner. It takes
// Config.Local.
func (g *Gateway) Find(uid schema.UID, device schema.DeviceID, flag schema.Flag) (r schema.Route, by schema.Target, ok bool) {
	l := g.life.Load()
	if l == nil || device == "" || !g.holder.Trusted() {
		return r, by, false
	}
	if flag == "" && !strings.HasPrefix(g.view.Config().Policy, single) {
		return r, by, false
	}
	n := subjects.SlotOf(uid)
	by, owned := g.view.Target(n)
	s := g.slots[n].only(deviceOf{uid, device}, flag)
	if !owned || s == nil || !s.toldUnder(l, by) || s.current() != active {
		return r, by, false
	}
	r = s.route(l.me, s.latestSeq())
	r.TTL = max(0, g.view.Config().TTL()-r.Idle)
	return r, by, true
}

// Push does what a push message to this gateway does, without one: for delivery in this process.
// False where To is not this gateway's present life. Acks is nil where none follow; else it gives
// all results once more.
func (g *Gateway) Push(req *schema.Push) (results []schema.PushResult, acks <-chan []schema.PushResult, ok bool) {
	l := g.life.Load()
	if l == nil || req.To != l.me {
		return nil, nil, false
	}
	results, wait := g.pushFrames(l, req)
	if wait == nil {
		return results, nil, true
	}
	late := make(chan []schema.PushResult, 1)
	g.followAcks(l, wait, func() { late <- wait.results(results) })
	return results, late, true
}

// only gives the active session of a device with a flag, or with any; nil where there is not
// exactly one.
func (sl *slot) only(d deviceOf, flag schema.Flag) (found *session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	for _, s := range sl.devices[d] {
		if flag != "" && s.who.Flag != flag {
			continue
		}
		if found != nil {
			return nil
		}
		found = s
	}
	return found
}

// enterDeviceLocked and leaveDeviceLocked keep the index, where there is one.
func (sl *slot) enterDeviceLocked(s *session) {
	if sl.devices != nil && s.who.Device != "" {
		d := deviceOf{s.who.UID, s.who.Device}
		sl.devices[d] = append(sl.devices[d], s)
	}
}

func (sl *slot) leaveDeviceLocked(s *session) {
	d := deviceOf{s.who.UID, s.who.Device}
	if at := slices.Index(sl.devices[d], s); at >= 0 {
		if sl.devices[d] = slices.Delete(sl.devices[d], at, at+1); len(sl.devices[d]) == 0 {
			delete(sl.devices, d)
		}
	}
}
