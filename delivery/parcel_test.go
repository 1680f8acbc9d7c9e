package delivery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// What waits for acknowledgements goes alone, and keeps its place among the others.
func TestTakeParcels(t *testing.T) {
	plain := func(recipients int) *parcel { return &parcel{at: make([]int32, recipients), size: 100} }
	waits := &parcel{at: make([]int32, 1), frame: schema.PushFrame{AckWait: time.Second}}
	for name, tc := range map[string]struct {
		waiting []*parcel
		want    int
	}{
		"together":      {[]*parcel{plain(1), plain(2), plain(3)}, 3},
		"too many":      {[]*parcel{plain(500), plain(12), plain(1)}, 2},
		"one too large": {[]*parcel{plain(schema.MaxRecipients + 1), plain(1)}, 1},
		"waits first":   {[]*parcel{waits, plain(1)}, 1},
		"waits later":   {[]*parcel{plain(1), plain(1), waits, plain(1)}, 2},
		"waits alone":   {[]*parcel{waits}, 1},
		"two that wait": {[]*parcel{waits, waits}, 1},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, takeParcels(tc.waiting)) })
	}
}
