package gateway_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// A log that has lost its tail names who was here before a gateway was killed and started again. That
// one does not answer: the sockets of this one stay, and its users are shown again.
func TestPredecessorOfALostTail(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		m := newMesh(t, s, "a-1")
		old := startGateway(t, s, "gw-1")
		time.Sleep(time.Second)
		loseTail := s.Keep()
		for _, l := range []*bubble.Link{old.link, old.push} { // it is killed
			l.Cut()
			l.Reset()
		}
		g := startGateway(t, s, "gw-1")
		var lost atomic.Int32
		d := g.login(t, "alice", "d1", func(c *client.Config) {
			c.OnState = func(s client.State) {
				if s.Phase == client.Waiting {
					lost.Add(1)
				}
			}
		})
		time.Sleep(5 * time.Second)
		loseTail()
		bubble.Until(t, 30*time.Second, "the user online under the next boot", func() bool {
			return m.find("alice").State == schema.Online && g.Ready() == nil
		})
		time.Sleep(2 * time.Minute)
		require.Equal(t, schema.Online, m.find("alice").State)
		require.Equal(t, []schema.PushResult{schema.PushWritten}, m.pushTo("alice", "m"))
		bubble.Until(t, time.Second, "the message", func() bool { return d.got() == 1 })
		require.Zero(t, lost.Load(), "her socket is closed")
	})
}
