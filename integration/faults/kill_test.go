package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A killed authority: with the server's disconnect events imported, its slots are another's in a
// fraction of a second; without them they are unknown until its lease ends. Nobody is ever said to
// be offline.
func TestKilledAuthority(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		times := l.times(20, 4)
		if p != tenth() {
			times = 2
		}
		s := newStage(t, l, scene{pass: p, events: true})
		var windows spread
		begun := time.Now()
		for i := range times {
			windows = append(windows, s.killAuthority(i)...)
		}
		t.Logf("%d kills: unknown %v", times, windows)
		s.honest(begun)
		require.Less(t, windows.at(0.5), 300*time.Millisecond)
		require.Less(t, windows.at(0.99), time.Second)
	})
}

// Without disconnect events nobody can tell a killed authority from one that is cut off: its slots
// are unknown until its lease ends.
func TestKilledAuthorityWithoutEvents(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p})
		begun := time.Now()
		var windows spread
		times := l.times(3, 1)
		if p != tenth() {
			times = 1
		}
		for i := range times {
			windows = append(windows, s.killAuthority(i)...)
		}
		t.Logf("unknown %v", windows)
		s.honest(begun)
		require.Less(t, windows.at(1), p.lease+p.lease/10+time.Second, "its lease has ended, and nobody takes over")
	})
}

// killAuthority kills one authority and gives the unknown window of each of its slots; then it
// starts the next one under that name.
func (s *stage) killAuthority(i int) spread {
	s.t.Helper()
	u := s.authorities[i%len(s.authorities)]
	slots := s.owners.slots(u)
	require.NotEmpty(s.t, slots)
	left := s.owners.leaseLeft(u)
	killed := u.kill()
	windows := s.unknown(killed, time.Now(), slots)
	s.t.Logf("%s killed, %d slots: unknown %v", u.node, len(slots), windows)
	require.True(s.t, s.scene.events || windows.at(0) > left, "taken over %v after it was killed, before its lease could have ended: %v", windows.at(0), left)
	u.start()
	s.settle()
	return windows
}

// unknown waits until each slot has answered after a fault, and gives how long each was unknown: from
// when the fault began, by look-ups sent when it was done.
func (s *stage) unknown(fault, done time.Time, slots []schema.Slot) (windows spread) {
	s.t.Helper()
	until(s.t, patience, "each slot has answered", func() bool {
		windows = s.probe.windows(fault, done, time.Now(), slots)
		return len(windows) == len(slots)
	})
	return windows
}

// honest requires what holds whatever the fault: nobody who is connected was said to be offline, no
// push came to a session that it was not for, and what was written arrived.
func (s *stage) honest(begun time.Time) {
	s.t.Helper()
	ended := time.Now()
	s.arrived(ended)
	asked, pushed := s.probe.tally(begun, ended), s.ledger.account(begun, ended)
	s.t.Log(asked)
	s.t.Log(pushed)
	require.Empty(s.t, asked.falseOffline, "connected, and said to be offline")
	require.Zero(s.t, pushed.falseOffline, "connected, and said to be offline by a push")
	require.Empty(s.t, pushed.wrong, "written to a wrong session")
	require.Empty(s.t, pushed.lost, "written to a socket that stayed up, and lost")
	require.NotZero(s.t, pushed.written)
}

// arrived waits until everything that was pushed by a moment has its answer, and is where it went.
func (s *stage) arrived(by time.Time) {
	s.t.Helper()
	until(s.t, patience, "each push has its answer", func() bool { return s.ledger.open(by) == 0 })
	pause(s.t, time.Second) // what was written last is on its way to its client
}
