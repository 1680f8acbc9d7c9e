package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// An authority loses its connection. Where it is back at once it keeps everything; where that takes
// longer than the others wait, its slots move once, and once more when the shares are evened.
func TestAuthorityCutOff(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		short, long := l.times(20, 4), l.times(20, 2)
		away := longCut(p)
		if p != tenth() {
			short, long = 5, 2
		}
		s := newStage(t, l, scene{pass: p, events: true, proxied: []string{"a-1"}})
		guests := startChurn(t, s, 8)
		u := s.authorities[0]
		begun := time.Now()
		late := 0
		for range short {
			before := s.owners.targets()
			back := s.blink(u, 20*time.Millisecond)
			moved := s.owners.targets() != before
			if back >= inTime { // the machine is so busy that a process needs as long as this to dial
				late++
				t.Logf("cut for 20 ms: it took %v to renew its key, slots moved: %v", back, moved)
				s.settle()
				continue
			}
			require.False(t, moved, "a cut of 20 ms moves a slot, though the key was renewed after %v", back)
		}
		t.Logf("%d cuts of 20 ms, %d of them back too late on this machine; the others moved nothing; longest unknown %v",
			short, late, spread(s.probe.longest(begun, time.Now(), every())))
		require.LessOrEqual(t, late, short/4, "this machine is too busy to tell")
		var windows spread
		for range long {
			slots := s.owners.slots(u)
			require.NotEmpty(t, slots)
			cut := s.proxies[u.node].cut(away)
			some := s.unknown(cut, slots)
			s.settle()
			windows = append(windows, some...)
			moved := s.owners.since(cut)
			t.Logf("cut for %v: %d slots, moves in all %d: unknown %v", away, len(slots), len(moved), some)
			require.Empty(t, beyond(moved, slots), "a slot moved more often than by the cut and when the shares were evened")
		}
		t.Logf("%d cuts of %v: unknown %v", long, away, windows)
		s.honest(begun)
		guests.holds(t)
		require.Empty(t, endings(s.fleet.users, begun), "a socket is closed")
		require.Less(t, windows.at(0.99), time.Second)
	})
}

// inTime is how soon an authority has to have renewed its key for the others to know of it when they
// act, 100 ms after they heard of the end of its connection.
const inTime = 80 * time.Millisecond

// blink cuts an authority off, and gives how long it took to send the renewal of its key. It returns
// when the others would have acted.
func (s *stage) blink(u *unit, d time.Duration) time.Duration {
	s.t.Helper()
	renewed := make(chan time.Time, 1)
	key := prefix.BucketKey(subjects.AuthorityKey(schema.NodeID(u.node)))
	p := s.proxies[u.node]
	cut := p.cut(d)
	p.pass(func(f frame) bool {
		if f.toServer && f.subject == key {
			select {
			case renewed <- time.Now():
			default:
			}
		}
		return true
	})
	defer p.pass(nil)
	pause(s.t, 500*time.Millisecond)
	select {
	case at := <-renewed:
		return at.Sub(cut)
	default:
		return time.Since(cut)
	}
}

// longCut is a second, longer than the others wait for an authority's return. Where they would even
// out the shares without it by then, it is shorter: a slot would move once more.
func longCut(p pass) time.Duration { return min(time.Second, p.lease/10) }

// beyond gives the slots that moved too often: more than twice, or more than once where they were
// not among those cut off.
func beyond(moves []moved, cut []schema.Slot) (slots []schema.Slot) {
	times, allowed := map[schema.Slot]int{}, map[schema.Slot]int{}
	for _, s := range cut {
		allowed[s] = 1
	}
	for _, m := range moves {
		times[m.to.Slot]++
	}
	for s, n := range times {
		if n > 1+allowed[s] {
			slots = append(slots, s)
		}
	}
	return slots
}
