package authority_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// TestStatusOfManyFlags: clients choose their flags, and as many as would fit no message keep an authority
// from telling how its slots are no more.
func TestStatusOfManyFlags(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *bubble.Server) {
		w := startWorkerWith(t, s, authority.Config{Node: "a-1", Fresh: true})
		g := startGateway(t, s, "gw-1")
		const users, each = 600, 25
		for u := range users {
			uid := schema.UID(fmt.Sprint("u", u))
			var routes []schema.Route
			for d := range each {
				g.seq++
				routes = append(routes, schema.Route{
					UID: uid, Owner: g.me, Session: schema.NewSessionNum(uint32(g.seq), 1), Seq: g.seq, Listener: "ws",
					Device: schema.DeviceID(fmt.Sprint(d)), Flag: schema.Flag(fmt.Sprintf("%032d", g.seq)),
				})
			}
			target, err := g.Target(t.Context(), slotOf(uid))
			require.NoError(t, err)
			bubble.Until(t, time.Second, "the authority has heard of the gateway", func() bool {
				_, err := g.Sync(t.Context(), target, g.me, true, routes)
				return err == nil
			})
		}
		said, err := g.Status(t.Context(), w.Me())
		require.NoError(t, err)
		require.Equal(t, users, said.Users)
		require.Len(t, said.Counts, schema.MaxCounts+1)
		sum := 0
		for _, c := range said.Counts {
			sum += c.Sessions
		}
		require.Equal(t, users*each, sum)
	})
}
