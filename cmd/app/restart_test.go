package app

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestRestartsAfterAChange(t *testing.T) {
	const read = "lease, heartbeat and ttl are read at the start: restart the processes, one after the other"
	for name, c := range map[string]struct {
		change func(*schema.Config)
		want   string
	}{
		"none":           {func(c *schema.Config) { c.Policy = "single" }, ""},
		"longer lease":   {func(c *schema.Config) { c.LeaseMS = 60_000 }, read},
		"shorter lease":  {func(c *schema.Config) { c.LeaseMS = 6000 }, read},
		"far shorter":    {func(c *schema.Config) { c.LeaseMS = 5999 }, read + "; who runs on renews every 3s only, and counts as dead after 5.999s: to end no lease, stop all processes first, or shorten the lease in steps of a fifth"},
		"longer ttl":     {func(c *schema.Config) { c.TTLMS = 180_000 }, read},
		"faster":         {func(c *schema.Config) { c.HeartbeatMS, c.TTLMS = 10_000, 30_000 }, read + ", gateways first"},
		"slower":         {func(c *schema.Config) { c.HeartbeatMS, c.TTLMS = 60_000, 180_000 }, read + ", authorities first"},
		"more heartbeat": {func(c *schema.Config) { c.HeartbeatMS = 10_000 }, read},
	} {
		t.Run(name, func(t *testing.T) {
			after := schema.DefaultConfig()
			c.change(&after)
			require.NoError(t, after.Check())
			require.Equal(t, c.want, strings.Join(restarts(schema.DefaultConfig(), after), "; "))
		})
	}
}
