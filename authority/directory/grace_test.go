package directory

import (
	"fmt"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
)

// TestGraceIsBounded has more users go than are held back: the last ones are told of at once.
func TestGraceIsBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	d := New(17, 7, Settings{Grace: 5 * time.Second})
	head := schema.SlotHead{From: schema.Process{Node: "g1", Boot: "a"}}
	users := maxHeld + 3
	for n := range users {
		uid := schema.UID(fmt.Sprintf("u%d", n))
		res, _ := d.Register(now, head, schema.Login{Left: time.Second, Route: schema.Route{UID: uid, Session: schema.SessionNum(n + 1), Seq: schema.OwnerSeq(n + 1)}})
		require.Equal(t, schema.CodeOK, res.Code)
	}
	atOnce := 0
	for n := range users {
		_, events := d.Unregister(now, head, schema.Leave{UID: schema.UID(fmt.Sprintf("u%d", n)), Session: schema.SessionNum(n + 1), Seq: schema.OwnerSeq(users + n + 1)})
		for _, e := range events {
			require.Equal(t, schema.EventOffline, e.Type)
			atOnce++
		}
	}
	require.Equal(t, 3, atOnce)
	require.Equal(t, maxHeld, d.Held())
	later := 0
	for more := true; more; {
		var events []schema.Event
		events, more = d.Expire(now.Add(5 * time.Second))
		require.LessOrEqual(t, len(events), passWork)
		later += len(events)
	}
	require.Equal(t, maxHeld, later)
	require.Zero(t, d.Held())
}
