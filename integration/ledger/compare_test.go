package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestCompare(t *testing.T) {
	const written, acked, unknown, full = schema.PushWritten, schema.PushAcked, schema.PushUnknown, schema.PushQueueFull
	sent := func(results ...schema.PushResult) (list []told) {
		for i, r := range results {
			list = append(list, told{i + 1, r})
		}
		return list
	}
	for name, c := range map[string]struct {
		sent  []told
		got   []int
		left  int
		stays bool
		wrong string
	}{
		"all":                   {sent(written, acked, written), []int{1, 2, 3}, 0, true, ""},
		"nothing":               {nil, nil, 0, true, ""},
		"unknown came":          {sent(written, unknown, written), []int{1, 2, 3}, 0, true, ""},
		"unknown did not":       {sent(written, unknown, full, written), []int{1, 4}, 0, true, ""},
		"cut off":               {sent(written, written, written), []int{1, 2}, 0, false, ""},
		"left":                  {sent(written, written, written), []int{1, 2}, 2, false, ""},
		"lost within":           {sent(written, written, written), []int{1, 3}, 0, false, "2 was reported written"},
		"lost at the end":       {sent(written, written), []int{1}, 0, true, "2 was reported written"},
		"lost before it left":   {sent(written, written), nil, 2, false, "1 was reported written"},
		"acked and lost":        {sent(written, acked), []int{1}, 0, false, "2 was reported acked"},
		"twice":                 {sent(written, written), []int{1, 1, 2}, 0, true, "1 came"},
		"out of order":          {sent(written, unknown, written), []int{1, 3, 2}, 0, true, "2 came"},
		"refused and came":      {sent(written, full), []int{1, 2}, 0, true, "2 came and was reported queue_full"},
		"came without a report": {sent(written), []int{1, 2}, 0, true, "2 came"},
	} {
		t.Run(name, func(t *testing.T) {
			err := compare(c.sent, &list{got: c.got, left: c.left, stays: c.stays})
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
