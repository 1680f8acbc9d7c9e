package lease

// Young reports whether the bucket's config was written less than a lease ago, by the server's own
// times: the bucket is new, or was made anew, and gateways may have yet to write their keys. It is
// as true as the last snapshot.
func (v *View) Young() bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.t.newest.Sub(v.t.configured) < v.t.config.Lease()
}
