package delivery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A payload travels once a gateway and batch, however many it is for: counted in bytes on the wire.
func TestPayloadTravelsOnceABatch(t *testing.T) {
	const users, payload, row = 500, 20_000, 64
	run(t, func(t *testing.T, m *mesh) {
		g1, g2 := m.gateway("gw-1"), m.gateway("gw-2")
		var uids []schema.UID
		for i := range users {
			uids = append(uids, schema.UID(fmt.Sprint("u", i)))
			[]*gateway{g1, g2}[i%2].login(t, uids[i], "phone", "app")
		}
		spy, _ := m.server.Dial("spy")
		var messages, bytes atomic.Int64
		_, err := spy.Subscribe("push.>", func(msg *nats.Msg) {
			messages.Add(1)
			bytes.Add(int64(len(msg.Data)))
		})
		require.NoError(t, err)
		require.NoError(t, spy.Flush())
		large := message("m1")
		large.Payload = json.RawMessage(`"` + strings.Repeat("x", payload) + `"`)
		p, err := m.Push(t.Context(), large, append(uids, uids...)) // everybody named twice
		require.NoError(t, err)
		require.Len(t, p.Users, 2*users)
		for _, u := range p.Users {
			require.True(t, u.Reached)
		}
		time.Sleep(time.Second) // the spy hears by itself
		require.EqualValues(t, 2, messages.Load(), "one a gateway")
		require.Greater(t, bytes.Load(), int64(2*payload))
		require.Less(t, bytes.Load(), int64(2*payload+users*row))
		require.Len(t, g1.pushed(), users/2)
		require.Len(t, g2.pushed(), users/2)
	})
}
