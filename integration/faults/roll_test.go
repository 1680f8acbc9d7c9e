package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rolling restart: each authority in turn is ended by SIGTERM and started again. Its slots are
// handed over, and back when the shares are evened; a slot is unknown only while gateways tell its
// new owner of their sessions.
func TestRollingRestart(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p, events: true})
		begun := time.Now()
		var unknown spread // of each slot in each restart of its owner, both ways
		for _, u := range s.authorities {
			from, slots := time.Now(), s.owners.slots(u)
			require.NotEmpty(t, slots)
			u.proc.Stop()
			left := time.Since(from)
			u.start()
			s.settle()
			some := spread(s.probe.longest(from, time.Now(), slots))
			t.Logf("%s restarted, gone after %v, moved %d slots there and %d in all: unknown %v", u.node, left, len(slots), len(s.owners.since(from)), some)
			unknown = append(unknown, some...)
			require.LessOrEqual(t, len(s.owners.since(from)), 2*len(slots)+len(s.authorities)*4, "more moved than its share, there and back")
		}
		t.Logf("longest unknown of a slot in a restart: %v", unknown)
		s.honest(begun)
		require.Less(t, unknown.at(0.99), 150*time.Millisecond)
	})
}
