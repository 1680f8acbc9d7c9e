package faults

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// spread are durations of which percentiles are asked.
type spread []time.Duration

// at gives the percentile p, 0 to 1; 0 of none.
func (d spread) at(p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func (d spread) String() string {
	ms := func(p float64) string { return d.at(p).Round(time.Millisecond).String() }
	return fmt.Sprintf("p50 %s, p99 %s, max %s (n=%d)", ms(0.5), ms(0.99), ms(1), len(d))
}

// loadAverage is what else the machine does: figures are to be read beside it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
