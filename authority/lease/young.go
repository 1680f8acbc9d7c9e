package lease

import "time"

// Young reports whether the bucket's config was written less than a lease ago, by the server's own
// times: the bucket is new, or was made anew, and gateways may have yet to write their keys. It is
// as true as the last snapshot. A config that was changed since is no sign: there are older slots.
func (v *View) Young() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.young()
}

// Heard is since when the bucket's config is known here as it was last written. A young bucket is older
// than that, whatever the servers' clocks say.
func (v *View) Heard() time.Time {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.heard
}

func (t *table) young() bool {
	for i := range t.slots {
		if t.slots[i].state != absent && t.slots[i].rev < t.configRev {
			return false
		}
	}
	return t.newest.Sub(t.configured) < t.config.Lease()
}
