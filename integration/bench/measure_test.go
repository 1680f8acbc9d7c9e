package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// rounds is how often a figure is taken; its median counts. The raw request is measured in turn
// with it, so that a neighbour on the machine disturbs both.
const rounds = 5

// slice is how long one round of one side lasts at least.
const slice = 400 * time.Millisecond

// act does n operations.
type act func(n int) error

// comparison is one row: an operation of the mesh, and the raw request of the same bytes.
type comparison struct {
	name  string
	unit  string // what is counted: uid, route, ...
	units int    // of them an operation
	act   act
	procs []*child // whose CPU counts, beside this process's

	before, after func() error // around each measurement of act; may be nil

	raw      act
	rawProcs []*child
	limit    limit
}

// limit is what a unit may cost: so many microseconds, or so many raw requests.
type limit struct{ micros, raws float64 }

// measured is what one side costs, by unit: medians.
type measured struct {
	cpu   time.Duration
	rate  float64   // units a second
	parts []float64 // of cpu: microseconds of this process, then of the others
}

// run measures both sides in turn and puts the row into results.
func (c comparison) run(b *testing.B) {
	b.Helper()
	var ours, raws []measured
	n, m := fit(b, c.act), fit(b, c.raw)
	for b.Loop() {
		for range rounds {
			c.around(b, func() { ours = append(ours, once(b, c.act, n, c.units, c.procs)) })
			raws = append(raws, once(b, c.raw, m, 1, c.rawProcs))
		}
	}
	ours, raws = sorted(ours), sorted(raws)
	us, raw := ours[len(ours)/2], raws[len(raws)/2]
	r := row{name: c.name, cost: fmt.Sprintf("%.2f us a %s", micros(us.cpu), c.unit), parts: c.parts(us), rate: fmt.Sprintf("%.0f %ss/s", us.rate, c.unit),
		raw: fmt.Sprintf("%.1f us, %.0f/s", micros(raw.cpu), raw.rate)}
	switch {
	case c.limit.micros > 0:
		r.judge(micros(us.cpu), c.limit.micros, "us")
	case c.limit.raws > 0:
		r.judge(float64(us.cpu)/float64(raw.cpu), c.limit.raws, "raw requests")
	}
	results.add(r)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(us.cpu), "us-cpu/"+c.unit)
	b.ReportMetric(micros(raw.cpu), "us-cpu/raw")
	b.ReportMetric(us.rate, c.unit+"s/s")
}

// around does f between before and after.
func (c comparison) around(b *testing.B, f func()) {
	b.Helper()
	if c.before != nil {
		require.NoError(b, c.before())
	}
	f()
	if c.after != nil {
		require.NoError(b, c.after())
	}
}

// parts says which process took how much.
func (c comparison) parts(m measured) string {
	said := []string{fmt.Sprintf("client %.2f", m.parts[0])}
	for i, p := range c.procs {
		said = append(said, fmt.Sprintf("%s %.2f", p.name, m.parts[i+1]))
	}
	return strings.Join(said, ", ")
}

func sorted(m []measured) []measured {
	slices.SortFunc(m, func(a, b measured) int { return int(a.cpu - b.cpu) })
	return m
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// fit gives how many operations take a slice of time.
func fit(b *testing.B, a act) int {
	b.Helper()
	for n := 1; ; n *= 2 {
		start := time.Now()
		require.NoError(b, a(n))
		if took := time.Since(start); took > slice/2 {
			return max(1, int(float64(n)*float64(slice)/float64(took)))
		}
	}
}

func once(b *testing.B, a act, n, units int, procs []*child) measured {
	b.Helper()
	start, before := time.Now(), cpus(b, procs)
	require.NoError(b, a(n))
	after, took := cpus(b, procs), time.Since(start)
	count := time.Duration(n * units)
	m := measured{rate: float64(count) / took.Seconds()}
	for i := range after {
		used := after[i] - before[i]
		m.cpu += used / count
		m.parts = append(m.parts, micros(used)/float64(count))
	}
	return m
}

// row is one line of the table that is printed at the end.
type row struct{ name, cost, parts, rate, raw, verdict string }

// judge compares a figure with its limit.
func (r *row) judge(got, most float64, unit string) {
	r.verdict = fmt.Sprintf("met: %.2f of %.2f %s", got, most, unit)
	if got > most {
		r.verdict = fmt.Sprintf("MISSED by %.0f %%: %.2f of %.2f %s", 100*(got/most-1), got, most, unit)
	}
}

// table collects the rows of all benchmarks of one run.
type table struct {
	mu   sync.Mutex
	rows []row
}

var results table

func (t *table) add(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

func (t *table) print(w io.Writer) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\nmedian of %d, in turn with the raw request; CPU of all processes summed\n\n", machine(), rounds)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "operation\tCPU\tof it\trate\traw request of the same bytes: CPU, rate\tlimit")
	for _, r := range t.rows {
		fmt.Fprintln(tw, strings.Join([]string{r.name, r.cost, r.parts, r.rate, r.raw, r.verdict}, "\t"))
	}
	tw.Flush()
}

// machine says what the figures are of.
func machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d x %s, %s/%s %s, %s, nats.go %s, load %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH,
		strings.TrimSpace(string(kernel)), runtime.Version(), nats.Version, strings.TrimSpace(string(load)))
}
