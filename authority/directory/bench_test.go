package directory

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
)

const (
	benchRoutes   = 1_000_000
	benchGateways = 10
)

// mesh is 256 directories filled as a mesh of a million users would fill them.
type mesh struct {
	slots [schema.Slots]*Directory
	now   time.Time
	heads [benchGateways]schema.SlotHead
}

func newMesh() *mesh {
	m := &mesh{now: time.Now()}
	for s := range m.slots {
		m.slots[s] = New(schema.Slot(s), 7, Settings{})
	}
	for g := range m.heads {
		m.heads[g].From = schema.Process{Node: schema.NodeID(fmt.Sprintf("gw-%d", g)), Boot: schema.BootID(fmt.Sprintf("boot-%017d", g))}
	}
	return m
}

// uidOf and sessionOf spread users over slots and gateways.
func uidOf(n int) schema.UID                { return schema.UID(fmt.Sprintf("user-%07d", n)) }
func sessionOf(n int) schema.SessionNum     { return schema.NewSessionNum(uint32(n/benchGateways), 1) }
func gatewayOf(n int) int                   { return n % benchGateways }
func (m *mesh) slotOf(n int) *Directory     { return m.slots[(n/benchGateways)%schema.Slots] }
func (m *mesh) head(n int) *schema.SlotHead { return &m.heads[gatewayOf(n)] }

func (m *mesh) routeOf(n int) schema.Route {
	return schema.Route{
		UID: uidOf(n), Owner: m.head(n).From, Session: sessionOf(n), Device: "phone-1", Flag: "app",
		Level: schema.Master, Listener: "ws", Seq: schema.OwnerSeq(n/benchGateways + 1), Order: schema.Order{Fence: 6, N: uint64(n)},
	}
}

// chunks gives the routes as syncs of one slot and gateway.
func (m *mesh) chunks(n int, each func(d *Directory, head schema.SlotHead, routes []schema.Route)) {
	type key struct{ slot, gateway int }
	all := map[key][]schema.Route{}
	for i := range n {
		k := key{(i / benchGateways) % schema.Slots, gatewayOf(i)}
		all[k] = append(all[k], m.routeOf(i))
	}
	for k, routes := range all {
		for len(routes) > 0 {
			part := routes[:min(len(routes), schema.MaxSync)]
			each(m.slots[k.slot], m.heads[k.gateway], part)
			routes = routes[len(part):]
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestMemoryPerRoute measures all that a million routes over 256 directories keep.
func TestMemoryPerRoute(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds and half a gigabyte")
	}
	before := heap()
	m := newMesh()
	m.chunks(benchRoutes, func(d *Directory, head schema.SlotHead, routes []schema.Route) {
		d.Sync(m.now, head, routes)
	})
	each := float64(heap()-before) / benchRoutes
	began := time.Now()
	runtime.GC()
	t.Logf("%.1f bytes a route, full GC %v", each, time.Since(began).Round(time.Millisecond))
	total := 0
	for _, d := range m.slots {
		total += d.Routes()
	}
	require.Equal(t, benchRoutes, total)
	require.LessOrEqual(t, each, 200.0)
	runtime.KeepAlive(m)
}

func filled(b *testing.B) *mesh {
	m := newMesh()
	m.chunks(benchRoutes, func(d *Directory, head schema.SlotHead, routes []schema.Route) { d.Sync(m.now, head, routes) })
	runtime.GC()
	b.ResetTimer()
	return m
}

// perRoute reports the cost of one of the n routes that each iteration has handled.
func perRoute(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/route")
}

func BenchmarkSync(b *testing.B) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		m := newMesh()
		for _, d := range m.slots {
			d.Rebuilding(true)
		}
		type call struct {
			d      *Directory
			head   schema.SlotHead
			routes []schema.Route
		}
		var calls []call
		m.chunks(benchRoutes, func(d *Directory, head schema.SlotHead, routes []schema.Route) {
			calls = append(calls, call{d, head, routes})
		})
		runtime.GC()
		b.StartTimer()
		for _, c := range calls {
			c.d.Sync(m.now, c.head, c.routes)
		}
		n += benchRoutes
	}
	perRoute(b, n)
}

func BenchmarkTouch(b *testing.B) {
	m := filled(b)
	batches := map[*Directory]map[int][]schema.Touched{}
	for i := range benchRoutes {
		d := m.slotOf(i)
		if batches[d] == nil {
			batches[d] = map[int][]schema.Touched{}
		}
		batches[d][gatewayOf(i)] = append(batches[d][gatewayOf(i)], schema.Touched{Session: sessionOf(i)})
	}
	n := 0
	for b.Loop() {
		for d, of := range batches {
			for g, touched := range of {
				if x := d.Touch(m.now, m.heads[g], touched); len(x) > 0 {
					b.Fatal(x[0])
				}
				n += len(touched)
			}
		}
	}
	perRoute(b, n)
}

func BenchmarkLookup(b *testing.B) {
	m := filled(b)
	uids := make([]schema.UID, benchRoutes)
	for i := range uids {
		uids[i] = uidOf(i)
	}
	var into []schema.Route
	n, i := 0, 0
	b.ResetTimer()
	for b.Loop() {
		into = into[:0]
		for range 1000 {
			i = (i + 7919) % benchRoutes
			into = m.slotOf(i).Lookup(m.now, uids[i], into)
		}
		n += len(into)
	}
	perRoute(b, n)
}
