package faults

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two of three servers come back with an older copy of their disks, and the log of the bucket loses its
// tail: slots that have moved since have their old owner and fence in it again, processes that were
// started again find who they were before under their names, and the revisions that were given out are
// given out once more. Everything forms again by itself, no fence is held twice, no socket is closed, and
// nobody is said to be offline.
func TestStoresRestored(t *testing.T) {
	l := campaign(t)
	p := tenth()
	s := newStage(t, l, scene{pass: p, servers: 3, events: true})
	stream := s.stream()
	old := map[*server]string{}
	for _, n := range s.servers[1:] {
		n.kill()
		old[n] = s.copyOf(n)
		n.start()
		until(t, patience, "all replicas are current", func() bool { return s.current(stream) })
	}
	copied := time.Now()
	for i := range s.authorities[:2] {
		s.killAuthority(i)
	}
	s.gateways[1].kill()
	s.gateways[1].start()
	s.settle()
	moves := s.owners.since(copied)
	require.NotEmpty(t, moves)
	last := moves[len(moves)-1].to
	written, err := stream.GetMsg(t.Context(), uint64(last.Fence))
	require.NoError(t, err)
	s.reforms("two of three stores restored", false, func() {
		for _, n := range s.servers {
			n.kill()
		}
		for _, n := range s.servers[1:] {
			require.NoError(t, os.RemoveAll(n.store))
			require.NoError(t, os.Rename(old[n], n.store))
			n.start()
		}
		leader := s.leader(stream)
		require.NotEqual(t, s.servers[0], leader)
		now, err := stream.GetMsg(t.Context(), uint64(last.Fence))
		require.True(t, err != nil || !now.Time.Equal(written.Time), "the log has its tail")
		t.Logf("%s leads, the log has lost revision %d, and the %d moves of slots since the copies", leader.name, last.Fence, len(moves))
		s.servers[0].start()
	})
}

// copyOf copies what a stopped server has on its disk.
func (s *stage) copyOf(n *server) string {
	s.t.Helper()
	dir := s.t.TempDir() + "/store"
	require.NoError(s.t, os.CopyFS(dir, os.DirFS(n.store)))
	return dir
}
