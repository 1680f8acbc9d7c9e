package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
)

// heartbeat is the default one; a client may miss two.
const heartbeat = 30 * time.Second

func TestClientIsKilled(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		d := m.Gateways[0].Login("alice", "phone")
		m.Pass(5 * time.Second)
		at := time.Now()
		d.Kill()
		m.Still()
		require.Equal(t, []string{"online connect", "offline leave"}, told.Of("alice"))
		require.Zero(t, told.Last("alice").Came.Sub(at), "the gateway sees the connection break at once")
		m.Truth("alice")
	})
}

// TestNetworkIsSilent cuts a client's network: it is seen for two heartbeats after its last word,
// not longer, and comes back as one session when the network does.
func TestNetworkIsSilent(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		d := m.Gateways[0].Login("alice", "phone")
		at := time.Now()
		d.Link.Cut()
		m.Pass(2*heartbeat - time.Millisecond)
		require.Equal(t, schema.Online, m.Find("alice").State)
		m.Pass(2 * time.Millisecond)
		require.Equal(t, schema.Offline, m.Find("alice").State)
		require.Equal(t, []string{"online connect", "offline timeout"}, told.Of("alice"))
		require.InDelta(t, 2*heartbeat, told.Last("alice").Came.Sub(at), float64(time.Microsecond))
		m.Pass(heartbeat)
		d.Link.Heal()
		m.Await(time.Minute, "back", func() bool { return m.Find("alice").State == schema.Online })
		require.Equal(t, schema.CloseHeartbeat, codes(d)[0], "the client has given up by itself")
		m.Truth("alice")
	})
}

// TestNetworkIsSilentForAWhile cuts a client's network for less than two heartbeats: nobody
// notices, and what was sent meanwhile arrives.
func TestNetworkIsSilentForAWhile(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		d := m.Gateways[0].Login("alice", "phone")
		before := d.Online().Session
		d.Link.Cut()
		m.Pass(50 * time.Second)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, mesh.Results(m.PushTo("alice", "meanwhile")))
		d.Link.Heal()
		m.Pass(2 * time.Minute)
		require.Equal(t, before, d.Online().Session)
		require.Equal(t, 1, d.Got("meanwhile"))
		require.Equal(t, []string{"online connect"}, told.Of("alice"))
		m.Truth("alice")
	})
}

// TestHalfOpenSocket has a phone lose its battery: the gateway's end of the connection stands. The
// user comes back before the gateway notices, and takes the dead session's place at once; another
// one does not, and is gone after two heartbeats.
func TestHalfOpenSocket(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		m.Gateways[0].Login("alice", "phone").Vanish()
		m.Gateways[0].Login("bob", "phone").Vanish()
		at := time.Now()
		m.Pass(10 * time.Second)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, mesh.Results(m.PushTo("bob", "lost with its socket")))
		back := m.Gateways[1].Login("alice", "phone")
		require.Zero(t, dialled(t, back))
		m.Truth("alice")
		m.Pass(2*heartbeat - time.Since(at) + time.Millisecond)
		m.Truth("alice", "bob")
		require.Equal(t, []string{"online connect", "offline timeout"}, told.Of("bob"))
		require.Equal(t, []string{"online connect", "removed replaced", "added connect"}, told.Of("alice"))
	})
}

// payload fills a kilobyte, with its quotes.
var payload = fmt.Appendf(nil, "%q", fmt.Sprintf("%01022d", 0))

// TestSlowReader has one client stop reading. Its queue fills, and what does not fit is told to who
// sends; after 10 s in which nothing could be written it is closed. Nobody else waits a moment.
func TestSlowReader(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		slow := m.Gateways[0].Enter("slow")
		brisk := m.Gateways[0].Login("brisk", "phone")
		slow.Pause()
		at := time.Now()
		written := flood(t, m, brisk, 1000)
		require.Greater(t, written, 512, "the queue holds 512 frames, beside what the network does")
		require.Less(t, written, 700)
		require.Zero(t, time.Since(at))
		m.Pass(10*time.Second - time.Millisecond)
		require.Equal(t, schema.Online, m.Find("slow").State)
		m.Pass(2 * time.Millisecond)
		require.Equal(t, []string{"online connect", "offline slow"}, told.Of("slow"))
		flood(t, m, brisk, 100)
		slow.Resume()
		require.Equal(t, schema.CloseAbnormal, slow.Ended().Code, "its stream broke off in a frame")
		m.Truth("slow", "brisk")
	})
}

// TestSlowReaderIsTold has one client stop reading, but ask: what it is owed does not fit into its
// queue. It is closed at once, and when it reads on it hears why.
func TestSlowReaderIsTold(t *testing.T) {
	mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
		told := m.Follow()
		slow := m.Gateways[0].Enter("slow")
		brisk := m.Gateways[0].Login("brisk", "phone")
		slow.Pause()
		written := flood(t, m, brisk, 1000)
		slow.Send(schema.ClientFrame{Type: schema.TypePing})
		m.Pass(time.Second)
		require.Equal(t, []string{"online connect", "offline slow"}, told.Of("slow"))
		flood(t, m, brisk, 100)
		slow.Resume()
		require.Equal(t, schema.CloseSlow, slow.Ended().Code)
		require.Len(t, slow.Frames(), 1+written, "connected, and each message that was told as written")
		m.Truth("slow", "brisk")
	})
}

// flood pushes messages to both, each of which must come to brisk in no time, and gives how many
// were written to slow: the first ones, and no other after the first that was not.
func flood(t *testing.T, m *mesh.Mesh, brisk *mesh.Device, messages int) (written int) {
	t.Helper()
	for i := range messages {
		at := time.Now()
		id := fmt.Sprintf("flood %d at %v", i, at)
		pushed, err := m.Push(t.Context(), delivery.Message{ID: id, Payload: payload}, []schema.UID{"slow", "brisk"})
		require.NoError(t, err)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, mesh.Results(pushed.Users[1]))
		switch slow := mesh.Results(pushed.Users[0]); {
		case len(slow) == 0:
			require.Equal(t, schema.Offline, pushed.Users[0].State)
		case slow[0] == schema.PushWritten:
			require.Equal(t, i, written, "written after one that was not")
			written++
		default:
			require.Equal(t, []schema.PushResult{schema.PushQueueFull}, slow)
			require.False(t, pushed.Users[0].Reached)
		}
		m.Still()
		last := brisk.Messages()
		require.Equal(t, id, last[len(last)-1].ID)
		require.Equal(t, at, last[len(last)-1].At)
	}
	return written
}

// TestReconnectsByCode has a Go client do what close codes tell it.
func TestReconnectsByCode(t *testing.T) {
	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
		one, two := m.Gateways[0], m.Gateways[1]
		d := one.Login("alice", "phone")
		d.MoveTo(two)
		require.NoError(t, one.Stop())
		m.Await(10*time.Second, "moved", func() bool { return allAt(two, []*mesh.Device{d}) })
		require.Equal(t, []schema.CloseCode{schema.CloseGoingAway}, codes(d))
		m.Truth("alice")
		kicked, err := m.Kick(t.Context(), delivery.KickRequest{UID: "alice"})
		require.NoError(t, err)
		require.Len(t, kicked, 1)
		require.Equal(t, schema.KickClosed, kicked[0].Result)
		require.Equal(t, schema.CloseRemoved, d.Stopped())
		require.Equal(t, client.Stopped, d.Changes()[len(d.Changes())-1].Phase)
		m.Truth("alice")
	})
}
