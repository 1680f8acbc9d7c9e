package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A killed gateway: its routes are there until its lease ends, and end at once when its node starts
// again. A login past one of them waits for the proof that nobody is there.
func TestKilledGateway(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		_, pushes := l.load()
		s := newStage(t, l, scene{pass: p, events: true, sessions: 2000, pushes: pushes})
		g := s.gateways[1]
		users := s.fleet.of(g)
		begun := time.Now()

		killed := g.kill()
		took := s.enter(s.gateways[0], users[0].uid, "phone", 5*time.Second)
		t.Logf("%d routes; a login past one of them took %v", len(users), took)
		require.Less(t, took, 2500*time.Millisecond)
		until(t, p.lease+patience, "the routes are gone", func() bool { return s.routesOf(users[1:], nil) == 0 })
		gone := time.Since(killed)
		t.Logf("gone %v after the kill", gone)
		require.Less(t, gone, p.lease+p.lease/10+2*time.Second)

		started := time.Now()
		g.start()
		until(t, patience, "a client is in", func() bool { return connectedOf(users) > 0 })
		serving := time.Since(started)
		s.settle()
		t.Logf("in service %v after its start, all users online after %v", serving, time.Since(started))
		require.Less(t, serving, 2*time.Second)

		old := s.owners.process(g).Boot
		g.kill()
		started = time.Now()
		g.start()
		g.proc.Line("lease taken")
		taken := time.Now()
		until(t, patience, "the routes of its former life are gone", func() bool {
			return s.routesOf(users, func(b schema.BootID) bool { return b == old }) == 0
		})
		ghosts := time.Since(taken)
		s.settle()
		t.Logf("restarted at once: it has its name after %v, its former routes are gone %v later, all users online after %v",
			taken.Sub(started), ghosts, time.Since(started))
		require.Less(t, taken.Sub(started), 2*time.Second)
		require.Less(t, ghosts, time.Second)
		s.honest(begun)
		require.Empty(t, endings(s.fleet.of(s.gateways[0]), begun), "a socket of the other gateway is closed")
	})
}

// connectedOf counts users with a session.
func connectedOf(users []*user) (n int) {
	for _, u := range users {
		if _, ok := u.client.Session(); ok {
			n++
		}
	}
	return n
}

// routesOf counts the routes that look-ups show of users: those of some boots, or, with nil, all. A user
// who is unknown may have one.
func (s *stage) routesOf(users []*user, of func(schema.BootID) bool) (n int) {
	for _, r := range s.lookup(users) {
		if r.State == schema.Unknown {
			n++
		}
		for _, route := range r.Routes {
			if of == nil || of(route.Boot) {
				n++
			}
		}
	}
	return n
}

// A gateway that the network cuts off keeps its sockets; how long it lasts decides what the others
// think of it.
func TestGatewayCutOff(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p, events: true, proxied: []string{"gw-1"}})
		for _, seconds := range []time.Duration{5, 60, 150} {
			s.cutOffGateway(s.gateways[0], seconds*time.Second)
		}
	})
}

func (s *stage) cutOffGateway(g *unit, nominal time.Duration) {
	s.t.Helper()
	p, users, d := s.scene.pass, s.fleet.of(g), s.scene.pass.scale(nominal)
	left, begun := s.owners.leaseLeft(g), time.Now()
	s.proxies[g.node].stall()
	pause(s.t, d)
	s.proxies[g.node].heal()
	healed := time.Now()
	online := func() bool { return connectedOf(users) == len(users) && s.allOnline(users) }
	until(s.t, patience, "its users are online again", online)
	back := time.Since(healed)
	offline := time.Duration(0) // until the first was said to be
	for _, a := range s.probe.between(begun, healed) {
		for slot, seen := range a.states {
			if seen.state == schema.Offline && s.fleet.users[slot].node == schema.NodeID(g.node) && offline == 0 {
				offline = a.back.Sub(begun)
			}
		}
	}
	ghosts := s.routesOf(users, func(b schema.BootID) bool { return b != s.owners.process(g).Boot })
	closed := endings(users, begun)
	s.t.Logf("cut off for %v (%v at the defaults): first said to be offline after %v; %d of %d sockets closed; all online %v after it healed; routes of another boot %d",
		d, nominal, offline, len(closed), len(users), back, ghosts)
	require.Less(s.t, back, 5*time.Second)
	require.Zero(s.t, ghosts)
	require.True(s.t, offline == 0 || offline > left, "said to be offline before its lease ended, %v", left)
	for _, c := range closed {
		require.Equal(s.t, schema.CloseMeshLost, c.code, "%s", c.reason)
	}
	if d > p.ttl {
		require.GreaterOrEqual(s.t, len(closed), len(users), "sockets that nobody can reach")
	} else {
		require.Empty(s.t, closed)
	}
	s.untouched(s.gateways[1], begun)
}

// untouched requires that the users of a gateway have noticed nothing, and that no message went astray.
func (s *stage) untouched(g *unit, begun time.Time) {
	s.t.Helper()
	ended := time.Now()
	s.arrived(ended)
	pushed := s.ledger.account(begun, ended)
	require.Empty(s.t, s.probe.tally(begun, ended, g).falseOffline, "connected, and said to be offline")
	require.Empty(s.t, pushed.wrong, "written to a wrong session")
	require.Empty(s.t, pushed.lost, "written to a socket that stayed up, and lost")
	require.Empty(s.t, endings(s.fleet.of(g), begun), "a socket of the other gateway is closed")
}

// A gateway that stands still while a slot is rebuilt holds it up, and nothing more: its users are
// unknown until it has told of them.
func TestGatewayStoppedInARebuild(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p, events: true})
		begun := time.Now()
		g, u := s.gateways[0], s.authorities[0]
		slots := s.owners.slots(u)
		require.NotEmpty(t, slots)
		g.proc.Signal(syscall.SIGSTOP)
		killed := u.kill()
		done := time.Now()
		pause(t, p.scale(6*time.Second))
		g.proc.Signal(syscall.SIGCONT)
		windows := s.unknown(killed, done, slots)
		u.start()
		s.settle()
		t.Logf("stopped for %v: %d slots unknown %v", p.scale(6*time.Second), len(slots), windows)
		s.honest(begun)
		require.Empty(t, endings(s.fleet.users, begun), "a socket is closed")
		require.Less(t, windows.at(1), p.scale(6*time.Second)+2*time.Second)
	})
}
