package app

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// A takeover as an operator sees it: a worker without proof of its lease, one that rebuilds and waits for
// two gateways and one more that is not named, and slots that nobody has.
var takeover = schema.SlotsReply{
	Slots: []schema.SlotStatus{
		{Slot: 0, Owner: "a-1", Fence: 70, State: schema.SlotReady, Suspect: true, Routes: 5, HeldMS: 61_000, Cause: schema.CauseClaimed},
		{Slot: 1, Owner: "a-2", Fence: 90, State: schema.SlotRebuilding, Routes: 2, HeldMS: 400, Cause: schema.CauseHanded, Synced: 1, Awaited: 3, Outstanding: []schema.NodeID{"gw-1", "gw-2"}},
		{Slot: 2, Owner: "a-2", Fence: 80, State: schema.SlotRebuilding, Routes: 1, HeldMS: 900, Cause: schema.CauseClaimed, Synced: 2, Awaited: 1, Outstanding: []schema.NodeID{"gw-2"}},
		{Slot: 3, Fence: 12, State: schema.SlotUnowned},
		{Slot: 4, Owner: "a-3", Fence: 13, State: schema.SlotUnreachable},
	},
	Processes: []schema.ProcessStatus{
		{Role: "authority", Node: "a-1", RenewedMS: 21_000},
		{Role: "authority", Node: "a-2", RenewedMS: 1_200},
		{Role: "authority", Node: "a-3", RenewedMS: 2_000},
		{Role: "gateway", Node: "a-1", RenewedMS: 7}, // a node's name is its role's own
	},
}

// cells gives what is printed, row by row.
func cells(t *testing.T, print func(*session, *schema.SlotsReply) error) (rows [][]string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, print(&session{out: &out}, &takeover))
	for line := range strings.Lines(out.String()) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

func TestSlotsOneByOne(t *testing.T) {
	require.Equal(t, [][]string{
		{"SLOT", "OWNER", "STATE", "FENCE", "ROUTES", "RENEWED", "MOVED", "CAUSE", "SYNCED", "OUTSTANDING"},
		{"0", "a-1", "ready,suspect", "70", "5", "21s", "1m1s", "claimed", "-", "-"},
		{"1", "a-2", "rebuilding", "90", "2", "1.2s", "400ms", "handed", "1/4", "gw-1", "gw-2", "..."},
		{"2", "a-2", "rebuilding", "80", "1", "1.2s", "900ms", "claimed", "2/3", "gw-2"},
		{"3", "-", "unowned", "12", "0", "-", "-", "-", "-", "-"},
		{"4", "a-3", "unreachable", "13", "0", "2s", "-", "-", "-", "-"},
	}, cells(t, printSlots))
}

func TestSlotsByOwnerAndState(t *testing.T) {
	require.Equal(t, [][]string{
		{"OWNER", "STATE", "SLOTS", "ROUTES", "RENEWED", "MOVED", "CAUSE", "SYNCED", "OUTSTANDING", "WHICH"},
		{"-", "unowned", "1", "0", "-", "-", "-", "-", "-", "3"},
		{"a-1", "ready,suspect", "1", "5", "21s", "1m1s", "claimed", "-", "-", "0"},
		{"a-2", "rebuilding", "2", "3", "1.2s", "400ms", "handed", "3/7", "gw-1:1", "gw-2:2", "...", "1-2"},
		{"a-3", "unreachable", "1", "0", "2s", "-", "-", "-", "-", "4"},
	}, cells(t, printSlotGroups))
}
