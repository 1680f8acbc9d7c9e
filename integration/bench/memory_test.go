package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// BenchmarkMemory brings a million routes to one authority, as gateways do after a failover.
func BenchmarkMemory(b *testing.B) {
	const million, limit = 1_000_000, 200
	admin := freeAddress(b)
	s := newStage(b, "--admin-listen", admin)
	s.join(b, 10)
	heap, rss := s.liveHeap(b, admin), s.authority.rss(b)
	var took time.Duration
	for b.Loop() {
		start := time.Now()
		s.flood(b, million)
		took += time.Since(start)
	}
	perRoute := float64(s.liveHeap(b, admin)-heap) / million
	resident := float64(s.authority.rss(b)-rss) / million
	r := row{name: "1,000,000 routes", cost: fmt.Sprintf("%.0f B of live heap, %.0f B of RSS a route", perRoute, resident),
		rate: fmt.Sprintf("%.0f routes/s", million/took.Seconds())}
	r.judge(perRoute, limit, "B")
	results.add(r)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perRoute, "B-heap/route")
	b.ReportMetric(resident, "B-rss/route")
}

// flood syncs n routes of as many users, chunk by chunk as slots fill.
func (s *stage) flood(b *testing.B, n int) {
	b.Helper()
	slots := map[schema.Slot][]schema.Route{}
	for i := range n {
		l := s.lives[i%len(s.lives)]
		r := l.route(name("m", i))
		r.Order = schema.Order{Fence: 1, N: uint64(i)}
		key := subjects.SlotOf(r.UID)
		slots[key] = append(slots[key], r)
	}
	for slot, routes := range slots {
		for _, l := range s.lives {
			var own []schema.Route
			for _, r := range routes {
				if r.Owner == l.me {
					own = append(own, r)
				}
			}
			require.NoError(b, s.sync(slot, l, own))
		}
		delete(slots, slot)
	}
	for _, l := range s.lives {
		l.settle()
	}
}

// liveHeap is what is on the authority's heap right after a collection, as far as looking often
// while it works can tell.
func (s *stage) liveHeap(b *testing.B, admin string) float64 {
	b.Helper()
	uids := make([]schema.UID, 1000)
	for i := range uids {
		uids[i] = name("m", i)
	}
	least := heapAlloc(b, admin)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		for range 5 {
			s.client.Lookup(context.Background(), uids)
		}
		least = min(least, heapAlloc(b, admin))
	}
	return least
}

// heapAlloc reads one of the metrics that the admin listener serves.
func heapAlloc(b *testing.B, admin string) float64 {
	b.Helper()
	answer, err := http.Get("http://" + admin + "/metrics")
	require.NoError(b, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		var bytes float64
		if strings.HasPrefix(lines.Text(), "go_memstats_heap_alloc_bytes") {
			_, err := fmt.Sscanf(lines.Text(), "go_memstats_heap_alloc_bytes %g", &bytes)
			require.NoError(b, err)
			return bytes
		}
	}
	require.Fail(b, "no heap metric at "+admin)
	return 0
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	return l.Addr().String()
}
