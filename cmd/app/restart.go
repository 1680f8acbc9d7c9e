package app

import (
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

// restarts says what is to be restarted after a change of the settings, and in which order: until all
// processes have been, some go by the times of before.
func restarts(before, after schema.Config) (lines []string) {
	if before.LeaseMS == after.LeaseMS && before.HeartbeatMS == after.HeartbeatMS && before.TTLMS == after.TTLMS {
		return nil
	}
	order := "one after the other"
	switch {
	case after.TTL() < 3*before.Heartbeat(): // routes would run out between two signs of life of who is silent
		order += ", gateways first"
	case before.TTL() < 3*after.Heartbeat():
		order += ", authorities first"
	}
	lines = append(lines, "lease, heartbeat and ttl are read at the start: restart the processes, "+order)
	if after.Lease() < 2*before.Renew() {
		lines = append(lines, fmt.Sprintf("who runs on renews every %v only, and counts as dead after %v: to end no lease, stop all processes first, or shorten the lease in steps of a fifth",
			before.Renew(), after.Lease()))
	}
	return lines
}
