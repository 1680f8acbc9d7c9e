package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Whatever becomes of the bucket, everything forms again by itself, and fences only grow.
func TestNATSRestarted(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		sizes := []int{1, 3}
		if p != tenth() {
			sizes = sizes[1:]
		}
		for _, servers := range sizes {
			t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) { restartNATS(newStage(t, l, scene{pass: p, servers: servers, events: true})) })
		}
	})
}

func restartNATS(s *stage) {
	killAll := func() {
		for _, n := range s.servers {
			n.kill()
		}
	}
	startAll := func() {
		for _, n := range s.servers {
			n.start()
		}
	}
	s.reforms("all servers restarted", false, func() {
		killAll()
		startAll()
	})
	s.reforms("the bucket deleted", true, func() {
		js, err := jetstream.New(connect(s.t, s.servers, deploy.Operator, "faults/delete"))
		require.NoError(s.t, err)
		require.NoError(s.t, js.DeleteStream(s.t.Context(), prefix.BucketStream()))
	})
	s.reforms("all servers restarted with empty disks", true, func() {
		killAll()
		for _, n := range s.servers {
			require.NoError(s.t, os.RemoveAll(n.store))
		}
		startAll()
	})
}

// reforms does something to the servers, waits until the mesh is itself again, with all slots at new
// fences where the bucket is another, and requires that no slot's fence has fallen and no socket was
// closed.
func (s *stage) reforms(what string, anew bool, act func()) {
	s.t.Helper()
	before := s.owners.targets()
	begun := time.Now()
	act()
	done := time.Now()
	until(s.t, patience, what+": every slot is claimed anew", func() bool {
		for i, now := range s.owners.targets() {
			if anew && now.Fence <= before[i].Fence {
				return false
			}
		}
		return true
	})
	claimed := time.Since(begun)
	until(s.t, patience, what+": look-ups know everybody", func() bool { return s.probe.calm(done) })
	calm := time.Since(begun)
	s.settle()
	after := s.owners.targets()
	moved := 0
	for i := range after {
		require.GreaterOrEqual(s.t, after[i].Fence, before[i].Fence, "the fence of slot %d has fallen", i)
		if after[i] != before[i] {
			moved++
			require.Greater(s.t, after[i].Fence, before[i].Fence, "slot %d has another owner under the same fence", i)
		}
	}
	s.t.Logf("%s: %d servers: %d slots at a new fence after %v; a second of look-ups that know everybody after %v; settled after %v; longest unknown %v",
		what, len(s.servers), moved, claimed, calm, time.Since(begun), spread(s.probe.longest(begun, time.Now(), every())))
	s.honest(begun)
	require.Empty(s.t, endings(s.fleet.users, begun), "a socket is closed")
	require.Equal(s.t, schema.Slots, len(after))
}
