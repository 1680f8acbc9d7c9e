//go:build !linux

package bench

import (
	"testing"
	"time"
)

// cpus skips the benchmark: other systems give no clock of another process's CPU time.
func cpus(b *testing.B, _ []*child) []time.Duration {
	b.Helper()
	b.Skip("the CPU time of other processes is read on Linux only")
	return nil
}
