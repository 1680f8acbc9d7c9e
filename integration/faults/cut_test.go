package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// An authority loses its connection. Where it is back at once it keeps everything; where that takes
// longer than the others wait, its slots move once, and once more when the shares are evened.
func TestAuthorityCutOff(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		short, long := l.times(20, 4), l.times(20, 2)
		away := longCut(p)
		s := newStage(t, l, scene{pass: p, events: true, proxied: []string{"a-1"}})
		guests := startChurn(t, s, 8)
		begun := time.Now()
		s.shortCuts(s.authorities[0], short)
		windows := s.longCuts(s.authorities[0], long, away)
		t.Logf("%d cuts of %v: unknown %v", long, away, windows)
		s.honest(begun)
		guests.holds(t)
		require.Empty(t, endings(s.fleet.users, begun), "a socket is closed")
		require.Less(t, windows.at(0.99), time.Second)
	})
}

// tries is how often a cut may be made again, for one that says nothing: the machine was so busy that
// the authority was not back in time.
const tries = 4

// shortCuts cuts an authority off for 20 ms, until it was back in time count times. None of those moves
// a slot.
func (s *stage) shortCuts(u *unit, count int) {
	s.t.Helper()
	begun, late := time.Now(), 0
	for n := 0; n < count; {
		before, back := s.owners.targets(), s.owners.returns(s.t, u)
		cut, _ := s.proxies[u.node].cut(20 * time.Millisecond)
		pause(s.t, 500*time.Millisecond) // the others would have acted
		took, moved := since(cut, back), s.owners.targets() != before
		if took < inTime {
			require.False(s.t, moved, "a cut of 20 ms moves a slot, though the key was renewed after %v", took)
			n++
			continue
		}
		late++
		s.t.Logf("cut for 20 ms: it took %v to renew its key, slots moved: %v", took, moved)
		require.Less(s.t, late, tries*count, "this machine is too busy to tell")
		s.settle()
	}
	s.t.Logf("%d cuts of 20 ms moved nothing, after %d more it was back too late on this machine; longest unknown %v",
		count, late, spread(s.probe.longest(begun, time.Now(), every())))
}

// inTime is how soon an authority has to have renewed its key, as heard here, for the others to know of
// it when they act, 100 ms after they heard of the end of its connection.
const inTime = 80 * time.Millisecond

// longCuts cuts an authority off for longer than the others wait, until it was back count times before
// they would even out the shares without it, by which a slot may move once more. It gives how long its
// slots were unknown.
func (s *stage) longCuts(u *unit, count int, away time.Duration) (windows spread) {
	s.t.Helper()
	late := 0
	for n := 0; n < count; {
		slots, back := s.owners.slots(u), s.owners.returns(s.t, u)
		require.NotEmpty(s.t, slots)
		cut, done := s.proxies[u.node].cut(away)
		some := s.unknown(cut, done, slots)
		s.settle()
		windows = append(windows, some...)
		moved, took := s.owners.since(cut), since(cut, back)
		s.t.Logf("cut for %v: back after %v: %d slots, moves in all %d: unknown %v", away, took, len(slots), len(moved), some)
		if took < s.scene.pass.lease/6 {
			require.Empty(s.t, beyond(moved, slots), "a slot moved more often than by the cut and when the shares were evened")
			n++
			continue
		}
		late++
		require.Less(s.t, late, tries*count, "this machine is too busy to tell")
	}
	return windows
}

// since gives how long after a cut an authority was back; so far, where it is not.
func since(cut time.Time, back <-chan time.Time) time.Duration {
	select {
	case at := <-back:
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
