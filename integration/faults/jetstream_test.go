package faults

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// An authority that reaches everybody but the bucket cannot renew its lease, and may not hear who has
// succeeded it. Past its trust it commits nothing.
func TestAuthorityWithoutJetStream(t *testing.T) {
	for _, c := range []struct {
		name              string
		requests, answers bool // that are lost
		notices           bool // too
	}{
		{"requests lost", true, false, false},
		{"answers lost", false, true, false},
		{"both lost, and notices", true, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := campaign(t)
			if l.short && !c.notices {
				t.Skip("in the whole campaign only: the worst case stands for the others")
			}
			p := tenth()
			s := newStage(t, l, scene{pass: p, events: true, proxied: []string{"a-1"}})
			guests := startChurn(t, s, 8)
			spy := newSpy(t, s)
			u := s.authorities[0]
			slots, old := s.owners.slots(u), s.owners.targets()
			require.NotEmpty(t, slots)
			begun := time.Now()
			s.proxies[u.node].pass(lose(c.requests, c.answers, c.notices))
			pause(t, p.lease*2/3+p.lease/20) // its trust has ended
			from := s.owners.process(s.gateways[0])
			spy.register(from, old, slots)
			until(t, p.lease+patience, "its slots are others'", func() bool { return s.owners.succeeded(u, slots) })
			taken := time.Since(begun)
			for range 10 { // it is asked on and on
				spy.register(from, old, slots)
				pause(t, p.lease/10)
			}
			said := spy.answers()
			s.proxies[u.node].pass(nil)
			s.settle()
			windows := spread(s.probe.longest(begun, time.Now(), slots))
			t.Logf("slots taken after %v, longest unknown %v; logins sent to it past its trust %d: %v", taken, windows, 11*len(slots), said)
			require.Zero(t, said[schema.CodeOK.String()], "a login accepted without a lease")
			require.NotEmpty(t, said)
			s.honest(begun)
			guests.holds(t)
			require.Empty(t, endings(s.fleet.users, begun), "a socket is closed")
		})
	}
}

// lose gives a rule that loses what goes to JetStream and to the bucket, what comes back, or both;
// with notices, the republished changes as well.
func lose(requests, answers, notices bool) func(frame) bool {
	var mu sync.Mutex
	inboxes := map[string]bool{} // where an answer to be lost will come
	return func(f frame) bool {
		mu.Lock()
		defer mu.Unlock()
		ofBucket := strings.HasPrefix(f.subject, "$JS.API.") || strings.HasPrefix(f.subject, "$KV.")
		if f.toServer {
			if ofBucket && answers && f.reply != "" {
				inboxes[f.reply] = true
			}
			return !ofBucket || !requests
		}
		if strings.HasPrefix(f.subject, strings.TrimSuffix(prefix.Changed(), ">")) {
			return !notices
		}
		lost := inboxes[f.subject] || answers && strings.HasPrefix(f.reply, "$JS.ACK.")
		delete(inboxes, f.subject)
		return !lost
	}
}
