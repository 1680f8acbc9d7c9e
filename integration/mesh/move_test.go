package mesh_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestSlotsMoveMidBatch has an authority hand its slots over while messages to their users are on
// their way to the gateway: the sockets have not moved, so all are written, once.
func TestSlotsMoveMidBatch(t *testing.T) {
	mesh.Run(t, mesh.Options{Authorities: 2, Gateways: 1}, func(t *testing.T, m *mesh.Mesh) {
		one := m.Gateways[0]
		var users []schema.UID
		var sockets []*mesh.Socket
		for i := range 40 {
			users = append(users, schema.UID(fmt.Sprint("u", i)))
			sockets = append(sockets, one.Enter(users[i]))
		}
		m.Asker.Delay(subjects.Prefix("").Push(one.Me()), 1, 1900*time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() {
			m.Pass(time.Millisecond)
			require.NoError(t, m.Authorities[0].Stop())
		})
		lines, took := push(t, m, "m1", users)
		require.Less(t, m.Shares()["a-1"], schema.Slots/2, "slots have moved meanwhile")
		wg.Wait()
		for i, line := range lines {
			require.Equal(t, string(users[i])+" true written", line)
		}
		require.Less(t, took, 2*time.Second)
		m.Pass(time.Second)
		for _, s := range sockets {
			require.Equal(t, 1, s.Got("m1"))
		}
	})
}
