package faults

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// The server that leads the bucket's stream is killed: for seconds nobody can renew anything, and
// nobody loses anything. Those who were connected to it are at another one at once, with their
// directories.
func TestKilledLeader(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		times := l.times(10, 1)
		if p != tenth() {
			times = 1
		}
		s := newStage(t, l, scene{pass: p, servers: 3, events: true})
		stream := s.stream()
		begun := time.Now()
		moves := 0
		var unknown, writes spread
		for range times {
			before := s.owners.targets()
			leader := s.leader(stream)
			killed := time.Now()
			leader.kill()
			leases, gone := s.owners.renewed(), time.Now()
			until(t, patience, "every lease is renewed, all is calm", func() bool { return s.owners.renewedSince(leases) && s.probe.calm(gone) })
			writes = append(writes, time.Since(killed))
			some := spread(s.probe.longest(killed, time.Now(), every()))
			unknown = append(unknown, some...)
			moves += len(s.owners.since(killed))
			require.Equal(t, before, s.owners.targets(), "a slot has another owner")
			leader.start()
			until(t, patience, "all replicas are current", func() bool { return s.current(stream) })
			t.Logf("%s killed, leases proven, and a second of calm, after %v: unknown %v", leader.name, writes[len(writes)-1], some)
		}
		t.Logf("%d leaders killed: slots moved %d; leases proven, and a second of calm, after %v; longest unknown of a slot %v", times, moves, writes, unknown)
		s.honest(begun)
		require.Zero(t, moves)
		require.Less(t, unknown.at(1), time.Second)
	})
}

// stream gives the bucket's stream.
func (s *stage) stream() jetstream.Stream { return s.streamNamed(prefix.BucketStream()) }

// streamNamed gives a stream, as an operator sees it.
func (s *stage) streamNamed(name string) jetstream.Stream {
	s.t.Helper()
	js, err := jetstream.New(connect(s.t, s.servers, deploy.Operator, "faults/"+name))
	require.NoError(s.t, err)
	stream, err := js.Stream(s.t.Context(), name)
	require.NoError(s.t, err)
	return stream
}

// leader gives the server that leads a stream.
func (s *stage) leader(stream jetstream.Stream) (leader *server) {
	s.t.Helper()
	until(s.t, patience, "the stream has a leader", func() bool {
		info, err := stream.Info(s.t.Context())
		if err != nil || info.Cluster == nil {
			return false
		}
		for _, n := range s.servers {
			if n.name == info.Cluster.Leader {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// current reports whether a stream has a leader that sees all its replicas up to date.
func (s *stage) current(stream jetstream.Stream) bool {
	info, err := stream.Info(s.t.Context())
	if err != nil || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != len(s.servers)-1 {
		return false
	}
	for _, r := range info.Cluster.Replicas {
		if r.Offline || !r.Current {
			return false
		}
	}
	return true
}

// Two of three servers are gone: all reconnect to the third, where nothing can be written. Nobody
// can succeed anybody, so everything goes on: pushes, look-ups, touches.
func TestJetStreamUnavailable(t *testing.T) {
	eachPass(t, func(t *testing.T, l length, p pass) {
		s := newStage(t, l, scene{pass: p, servers: 3, events: true})
		stream := s.stream()
		before := s.owners.targets()
		stopped := time.Now()
		down := s.servers[1:]
		for _, n := range down {
			n.kill()
		}
		gone := time.Now()
		until(t, patience, "everybody is answered for and reached", func() bool {
			_, found := s.probe.found(gone, 300*time.Millisecond)
			return found && s.ledger.reached(gone, 500*time.Millisecond)
		})
		reconnected := time.Now()
		pause(t, p.lease) // trust has ended everywhere
		suspects := time.Now()
		pause(t, time.Until(stopped.Add(p.scale(120*time.Second))))
		ended := time.Now().Add(-time.Second) // what was sent later may be answered after the return
		for _, n := range down {
			n.start()
		}
		started := time.Now()
		until(t, patience, "the bucket can be written again", func() bool { return s.current(stream) && s.probe.calm(started) })
		whole, late, pushed := s.probe.tally(stopped, ended), s.probe.tally(suspects, ended), s.ledger.account(reconnected, ended)
		t.Logf("without JetStream for %v, all answered for after %v, proven again %v after its return",
			p.scale(120*time.Second), reconnected.Sub(stopped), time.Since(ended)-time.Second)
		t.Log("whole: ", whole)
		t.Log("after the trust: ", late)
		t.Log("once reconnected: ", pushed)
		s.honest(stopped)
		require.Equal(t, pushed.sent, pushed.written, "pushes to sockets that are up")
		require.Equal(t, late.lookups*schema.Slots, late.suspect, "answers without proof of a lease are marked")
		require.Equal(t, before, s.owners.targets(), "a directory is lost")
		require.Empty(t, endings(s.fleet.users, stopped), "a socket is closed")
	})
}
