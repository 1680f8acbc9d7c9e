package authority_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Processes whose names are drawn at each start, as those of pods, come and are killed: in the end neither
// the bucket nor any process holds more than before, and nobody is waited for.
func TestNamesThatDoNotComeBackAreForgotten(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		startWorker(t, s, "a-2")
		g := startGateway(t, s, "gw-1")
		r := g.login(t, "alice", "phone")
		stop := g.answerNewFences(t, r) // while shares are evened out
		late := join(t, s, "late")
		js, err := jetstream.New(late.nc)
		require.NoError(t, err)
		held := func() uint64 {
			stream, err := js.Stream(t.Context(), subjects.Prefix("").BucketStream())
			require.NoError(t, err)
			return stream.CachedInfo().State.Msgs
		}
		time.Sleep(20 * time.Second)
		stop()
		before := held()

		pods := map[schema.Process]lease.Role{}
		for i := range 60 { // leaving, so that no worker hands slots to them
			p, role := schema.Process{Node: schema.NodeID(fmt.Sprint("pod-", i)), Boot: schema.NewBoot()}, lease.Gateway
			key := subjects.GatewayKey(p.Node)
			if i%3 == 0 {
				role, key = lease.Authority, subjects.AuthorityKey(p.Node)
			}
			value, err := json.Marshal(schema.ProcessValue{Boot: p.Boot, State: schema.StateLeaving})
			require.NoError(t, err)
			_, err = js.Publish(t.Context(), subjects.Prefix("").BucketKey(key), value)
			require.NoError(t, err)
			pods[p] = role
		}
		kv, err := js.KeyValue(t.Context(), subjects.Prefix("").Bucket())
		require.NoError(t, err)
		require.NoError(t, kv.Delete(t.Context(), subjects.GatewayKey("marker")))
		require.Equal(t, before+61, held())
		time.Sleep(time.Second)
		require.Equal(t, schema.Unknown, g.state(t, "bob"), "the pods may have sessions")

		time.Sleep(time.Minute)
		require.Equal(t, schema.Offline, g.state(t, "bob"), "their leases have ended")
		require.Equal(t, before+61, held())
		time.Sleep(11 * time.Minute)
		require.Equal(t, before, held(), "their keys are gone")
		for range 30 {
			time.Sleep(5 * time.Second)
			require.Equal(t, schema.Offline, g.state(t, "bob"))
		}
		for _, view := range []*lease.View{late.view, g.view} {
			require.Len(t, append(view.Members(lease.Authority), view.Members(lease.Gateway)...), 3)
			for p, role := range pods {
				require.Equal(t, lease.Unseen, view.Standing(role, p), "forgotten")
			}
		}
		require.Equal(t, before, held())
		g.login(t, "bob", "phone")
		require.Equal(t, schema.Online, g.state(t, "bob"))
	})
}
