package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// An authority that is stopped, and goes on long after its lease has ended, still believes in its
// slots for a moment. Nothing that it says then is accepted: logins that were sent to it meanwhile
// are refused by it, and everybody else asks its successors.
func TestStoppedAuthority(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p, events: true})
		begun := time.Now()
		u := s.authorities[0]
		slots := s.owners.slots(u)
		require.NotEmpty(t, slots)
		spy := newSpy(t, s)
		old := s.owners.targets()

		away := p.scale(60 * time.Second)
		if p == tenth() {
			away = 5 * time.Second // the servers end the connection of one that is silent for 6 s: its answers would be lost
		}
		stopped := time.Now()
		u.proc.Signal(syscall.SIGSTOP)
		done := time.Now()
		// Not before: the event of what was committed at that very moment would come when it goes on.
		guests := startChurn(t, s, 8)
		pause(t, p.lease*2/3+p.lease/100) // its trust has ended
		spy.register(s.owners.process(s.gateways[0]), old, slots)
		until(t, p.lease+patience, "its slots are others'", func() bool { return s.owners.succeeded(u, slots) })
		taken := time.Since(stopped)
		windows := s.unknown(stopped, done, slots)
		pause(t, time.Until(stopped.Add(away)))
		u.proc.Signal(syscall.SIGCONT)
		resumed := time.Now()
		s.settle()
		t.Logf("stopped for %v: slots taken after %v, unknown %v; back with its share after %v",
			away, taken, windows, time.Since(resumed))
		said := spy.answers()
		t.Logf("%d logins sent to it after its trust had ended: %v", len(slots), said)
		require.Zero(t, said[schema.CodeOK.String()], "a login accepted without a lease")
		require.NotEmpty(t, said)
		require.Less(t, windows.at(1), p.lease+p.lease/10+time.Second)
		for _, m := range s.owners.since(stopped) {
			require.False(t, m.at.Before(resumed) && m.to.Authority == old[slots[0]].Authority, "it took a slot while stopped")
			require.True(t, m.at.Before(resumed) || m.to.Authority != old[slots[0]].Authority, "its old boot came back")
		}
		s.honest(begun)
		guests.holds(t)
	})
}
