package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The table of gateway/PROTOCOL.md, written out a second time on purpose.
func TestCloseActions(t *testing.T) {
	want := map[schema.CloseAction][]schema.CloseCode{
		schema.ActionReconnect: {1001, 1005, 1006, 1011, 1012, 1013, 3001, 3002, 3004, 3006, 3007},
		schema.ActionNewToken:  {3005},
		schema.ActionStop:      {1000, 1002, 1003, 1007, 1008, 1009, 3500, 3501, 3502, 3503, 3504, 3505},
	}
	got := map[schema.CloseAction][]schema.CloseCode{}
	for _, c := range schema.CloseCodes() {
		got[c.Action()] = append(got[c.Action()], c)
		require.NotContains(t, c.String(), "unknown")
	}
	require.Equal(t, want, got)
}

func TestCloseUnknown(t *testing.T) {
	require.Equal(t, schema.ActionStop, schema.CloseCode(3599).Action())
	require.Equal(t, schema.ActionReconnect, schema.CloseCode(3499).Action())
	require.Equal(t, schema.ActionReconnect, schema.CloseCode(4000).Action())
	require.Equal(t, schema.ActionReconnect, schema.CloseCode(1014).Action())
	require.Equal(t, "3599 (unknown to this version)", schema.CloseCode(3599).String())
	require.Equal(t, "3503 (replaced by the same device)", schema.CloseReplaced.String())
	require.Equal(t, "new_token", schema.ActionNewToken.String())
	require.Equal(t, "action(9)", schema.CloseAction(9).String())
}
