package delivery

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A page that does not fit a message ends earlier, and its cursor leads to what was left out.
func TestSessionsReplyFits(t *testing.T) {
	found := &SessionsPage{Gateway: gateway(1), Cursor: "behind the last"}
	for i := range 100 {
		r := route(schema.UID(fmt.Sprint(i, strings.Repeat("\"", 200))), 1, i+1, "phone", "app")
		found.Routes = append(found.Routes, r)
	}
	for _, room := range []int{1, 5000, 50_000, 1 << 20} {
		reply := sessionsReply(found, room)
		body, err := json.Marshal(reply)
		require.NoError(t, err)
		n := len(reply.Results)
		if n > 1 {
			require.Less(t, len(body), room+headroom)
		}
		if n == len(found.Routes) {
			require.Equal(t, "behind the last", reply.Cursor)
			continue
		}
		require.NotZero(t, n, "or the caller would ask for ever")
		require.EqualValues(t, schema.SessionNum(n).Outside(gateway(1).Boot), reply.Cursor)
	}
	require.Len(t, sessionsReply(found, 1<<20).Results, 100)
}
