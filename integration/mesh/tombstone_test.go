package mesh_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestComingsAndGoings connects and closes 32,000 times through the whole path: ten users move
// between two gateways, in two ways. The last 24,000 leave no more than the first 8,000: the
// tombstones of the last second, and no memory: 44 bytes each would be seen, while on a busy machine the
// heap of the whole mesh, at rest, was found to differ by 670 KiB (by 200 in ten times as many comings).
func TestComingsAndGoings(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		crowd := &crowd{t: t, m: m}
		for i := range 10 {
			crowd.users = append(crowd.users, schema.UID(fmt.Sprintf("user-%d", i)))
		}
		crowd.come(8000 / share)
		few, fewBytes := crowd.tombstones(), crowd.heap()
		crowd.come(24_000 / share)
		many, manyBytes := crowd.tombstones(), crowd.heap()
		require.Less(t, few, 600, "tombstones: what five users have closed in the last second")
		require.Less(t, many, 600)
		require.Less(t, manyBytes, fewBytes+1<<20, "heap in bytes")
	})
}

type crowd struct {
	t     *testing.T
	m     *mesh.Mesh
	users []schema.UID
}

// come has the users come so often in all, side by side. Half of them leave before they come back,
// the other half are displaced by themselves.
func (c *crowd) come(times int) {
	var all sync.WaitGroup
	for n, uid := range c.users {
		all.Go(func() { c.wander(n, uid, times/len(c.users)) })
	}
	all.Wait()
	c.m.Pass(2 * time.Second)
	c.m.Truth(c.users...)
}

func (c *crowd) wander(n int, uid schema.UID, times int) {
	var here *mesh.Socket
	var before schema.SessionID
	for i := range times {
		g := c.m.Gateways[(n+i)%2]
		next := g.Enter(uid, mesh.As("d", "app", schema.Slave), mesh.Resume(before))
		if here != nil {
			require.Equal(c.t, schema.CloseReplaced, here.Ended().Code)
			here.Forget()
			here = nil
		}
		before = session(next)
		if n%2 == 0 {
			next.Leave()
			next.Forget()
		} else {
			here = next
		}
		c.m.Pass(10 * time.Millisecond)
	}
	if here != nil {
		here.Leave()
		here.Forget()
	}
}

// tombstones counts what is remembered of sessions that are out.
func (c *crowd) tombstones() (n int) {
	for _, uid := range c.users {
		said, err := c.m.Explain(c.t.Context(), uid)
		require.NoError(c.t, err)
		require.Empty(c.t, said.Routes)
		n += len(said.Tombstones)
	}
	return n
}

// heap gives what is in use, in bytes, when all timers of the past have fired.
func (c *crowd) heap() uint64 {
	c.m.Pass(5 * time.Minute)
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
