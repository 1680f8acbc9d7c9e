package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// TestFlagsOfACrowd: so many flags that telling each apart would fit no message.
func TestFlagsOfACrowd(t *testing.T) {
	var all []schema.NodeCount
	for i := range 40_000 {
		all = append(all, schema.NodeCount{Node: schema.NodeID(fmt.Sprint("gw-", i%4)), Flag: schema.Flag(fmt.Sprintf("%032d", i)), Sessions: 1})
	}
	all = append(all, schema.NodeCount{Node: "gw-1", Flag: "app", Sessions: 70}, schema.NodeCount{Node: "gw-0", Sessions: 50})
	got := schema.LargestCounts(all)
	require.Len(t, got, schema.MaxCounts+3, "and gw-1 to gw-3 under no flag")
	require.Contains(t, got, schema.NodeCount{Node: "gw-1", Flag: "app", Sessions: 70})
	sum, seen := 0, map[schema.NodeCount]bool{}
	for _, c := range got {
		sum += c.Sessions
		c.Sessions = 0
		require.False(t, seen[c], "%v is there twice", c)
		seen[c] = true
	}
	require.Equal(t, 40_000+70+50, sum)
	body, err := json.Marshal(got)
	require.NoError(t, err)
	require.Less(t, len(body), 128<<10)

	few := []schema.NodeCount{{Node: "gw-2", Flag: "app", Sessions: 1}, {Node: "gw-1", Flag: "web", Sessions: 2}}
	require.Equal(t, []schema.NodeCount{{Node: "gw-1", Flag: "web", Sessions: 2}, {Node: "gw-2", Flag: "app", Sessions: 1}}, schema.LargestCounts(few))
	require.Empty(t, schema.LargestCounts(nil))
}
