package delivery

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The limits that SERVICE.md tells of are those of the service.
func TestLimitsOfTheDocs(t *testing.T) {
	docs, err := os.ReadFile("SERVICE.md")
	require.NoError(t, err)
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
	for _, want := range []string{
		fmt.Sprintf("A call names at most %s users", thousands(schema.MaxCallUIDs)),
		fmt.Sprintf("any JSON value of at most %s bytes", thousands(maxPayload)),
		fmt.Sprintf("nests at most %d deep", schema.MaxFrameDepth-1),
		fmt.Sprintf("an `id` has at most %d", schema.MaxMessageID),
		fmt.Sprintf("serves %s calls at a time", thousands(cap(NewService(&Delivery{}, ServiceConfig{}).places))),
		fmt.Sprintf("`await_ms` (at most %s)", thousands(schema.MaxAwaitMS)),
		fmt.Sprintf("`ack_wait_ms` (at most %s)", thousands(int(schema.MaxAckMS))),
	} {
		require.Contains(t, string(docs), want)
	}
}
