package authority

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/schema"
)

// All slots wait for 2,000 gateways with the longest names: the report names a few in each slot, counts all
// of them, and fits a message.
func TestAReportFitsAMessage(t *testing.T) {
	w, now := &Worker{}, time.Now()
	report := schema.StatusReport{Backlog: map[schema.NodeID]int{}}
	for slot := range schema.Slot(schema.Slots) {
		target := schema.Target{Slot: slot, Fence: 1}
		slow := newTenure(target, directory.New(slot, 1, directory.Settings{}), now, now)
		for i := range 2000 {
			node := schema.NodeID(fmt.Sprintf("%s-%04d", strings.Repeat("g", schema.MaxNode-5), i))
			slow.rebuild.outstanding[schema.Process{Node: node}] = struct{}{}
		}
		w.statusOf(slow, now, &report, map[schema.NodeCount]int{})
	}
	require.Len(t, report.Backlog, 2000)
	for _, s := range report.Slots {
		require.Equal(t, 2000, s.Awaited)
		require.Len(t, s.Outstanding, schema.MaxOutstanding)
		require.True(t, strings.HasSuffix(string(s.Outstanding[schema.MaxOutstanding-1]), "-0015"))
	}
	for node, n := range report.Backlog {
		require.Equal(t, schema.Slots, n, node)
	}
	body, err := schema.Marshal(schema.NewStatusAnswer(report))
	require.NoError(t, err)
	require.Less(t, len(body), 1<<20)
}
