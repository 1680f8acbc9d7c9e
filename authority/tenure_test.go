package authority

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// What was heard of a gateway before its key was read after the claim may be of a tail that the log has
// lost: that it had no session at the fence is only believed from then on.
func TestASinceIsBelievedOnceTheKeyWasRead(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	target := schema.Target{Slot: 7, Fence: 100, Authority: schema.Process{Node: "a-1", Boot: schema.NewBoot()}}
	gateway := schema.Process{Node: "gw-1", Boot: schema.NewBoot()}
	tenure := func() *tenure {
		x := newTenure(target, directory.New(7, 100, directory.Settings{TTL: time.Minute}), start, start.Add(time.Second))
		x.meetLocked(gateway, 100, start)
		require.Contains(t, x.rebuild.outstanding, gateway)
		return x
	}
	x := tenure()
	x.await([]lease.Member{{Role: lease.Gateway, Process: gateway, Value: schema.ProcessValue{Since: 100}}}, time.Time{})
	require.False(t, x.unknownLocked(start))
	x = tenure()
	x.await([]lease.Member{{Role: lease.Gateway, Process: gateway, Value: schema.ProcessValue{Since: 99}}}, time.Time{})
	require.True(t, x.unknownLocked(start))
}
