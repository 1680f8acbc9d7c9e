package authority_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// write puts a gateway's key, as the life of the moment.
func (g *gateway) write(t *testing.T, since schema.Revision) {
	t.Helper()
	value, err := json.Marshal(schema.ProcessValue{Boot: g.me.Boot, State: schema.StateServing, Since: since})
	require.NoError(t, err)
	_, err = g.nc.RequestWithContext(t.Context(), subjects.Prefix("").BucketKey(subjects.GatewayKey(g.me.Node)), value)
	require.NoError(t, err)
}

// A gateway that has lost its key goes on under another boot, with the sockets that it has. From the
// moment its old routes count for nothing until it has told of its sessions nobody knows who is
// there: it is unknown, not offline.
func TestAGatewaysNewLifeTakesItsSocketsWithIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		g := &gateway{part: join(t, s, "gateway/gw-1"), me: schema.Process{Node: "gw-1", Boot: schema.NewBoot()}}
		g.Client = client.New(g.nc, g.view, client.Config{})
		bubble.Go(t, g.Client.Run)
		bubble.Until(t, 2*time.Second, "all slots owned", func() bool { return owned(g) == schema.Slots })
		g.write(t, g.view.Revision())
		time.Sleep(time.Second)
		r := g.login(t, "alice", "phone")
		require.Equal(t, schema.Online, g.state(t, "alice"))
		require.Equal(t, schema.Offline, g.state(t, "bob"))

		g.me.Boot = schema.NewBoot()
		r.Owner = g.me
		g.write(t, 0)
		for range 100 {
			require.NotEqual(t, schema.Offline, g.state(t, "alice"))
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, schema.Unknown, g.state(t, "alice"))
		require.Equal(t, schema.Unknown, g.state(t, "bob"))
		g.syncAll(t, r)
		require.Equal(t, schema.Online, g.state(t, "alice"))

		// A process that has started again has nothing: whoever it had is offline at once.
		g.me.Boot = schema.NewBoot()
		g.write(t, g.view.Revision())
		time.Sleep(time.Second)
		require.Equal(t, schema.Offline, g.state(t, "alice"))
	})
}

// A gateway's key tells of a revision that is not below its own: it is from a log that has lost its
// tail since. It says nothing of the slots' fences, and the gateway is awaited.
func TestASinceOfALostTailIsNone(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		startWorker(t, s, "a-1")
		g := &gateway{part: join(t, s, "gateway/gw-1"), me: schema.Process{Node: "gw-1", Boot: schema.NewBoot()}}
		g.Client = client.New(g.nc, g.view, client.Config{})
		bubble.Go(t, g.Client.Run)
		bubble.Until(t, 2*time.Second, "all slots owned", func() bool { return owned(g) == schema.Slots })
		g.write(t, g.view.Revision()+1000)
		time.Sleep(time.Second)
		require.Equal(t, schema.Unknown, g.state(t, "bob"))

		// What it has said once, while it knew the fence, it may forget.
		g.me.Boot = schema.NewBoot()
		g.write(t, g.view.Revision())
		time.Sleep(time.Second)
		require.Equal(t, schema.Offline, g.state(t, "bob"))
		g.write(t, 0)
		time.Sleep(time.Second)
		require.Equal(t, schema.Offline, g.state(t, "bob"))
	})
}

// A gateway said that it had no session, in the tail of the log that a server has lost since. It has some
// now, and says so, at revisions that the workers have heard of before: who takes a slot there waits for
// it all the same.
func TestASinceThatWasLostPassesNobody(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		first, second := startWorker(t, s, "a-1"), startWorker(t, s, "a-2")
		g := &gateway{part: join(t, s, "gateway/gw-1"), me: schema.Process{Node: "gw-1", Boot: schema.NewBoot()}}
		g.Client = client.New(g.nc, g.view, client.Config{})
		bubble.Go(t, g.Client.Run)
		bubble.Until(t, 2*time.Second, "all slots owned", func() bool { return owned(g) == schema.Slots })
		g.write(t, 0)
		time.Sleep(20 * time.Second) // shares are even
		loseTail := s.Keep()
		time.Sleep(3 * time.Second) // all are connected again
		renew := func(d time.Duration, since func() schema.Revision) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Second) {
				g.write(t, since())
			}
		}
		renew(10*time.Minute, g.view.Revision)
		lost := g.view.Revision()
		loseTail()
		time.Sleep(3 * time.Second)
		none := func() schema.Revision { return 0 }
		renew(20*time.Second, none)
		var taken []schema.Slot
		for slot := range schema.Slot(schema.Slots) {
			if target(t, g, slot).Authority == first.Me() {
				taken = append(taken, slot)
			}
		}
		require.Len(t, taken, schema.Slots/2)
		first.kill()
		renew(time.Minute, none)
		for _, slot := range taken {
			now := target(t, g, slot)
			require.Equal(t, second.Me(), now.Authority)
			require.Less(t, now.Fence, lost)
			require.Equal(t, schema.Unknown, g.state(t, uidOf(slot)), "slot %d", slot)
		}
	})
}
