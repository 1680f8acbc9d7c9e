package directory

import (
	"fmt"
	"runtime"
	"slices"
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
func slotOf(n int) int                      { return n / benchGateways % schema.Slots }
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
		k := key{slotOf(i), gatewayOf(i)}
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
	if testing.Short() || underRace {
		t.Skip("takes seconds and half a gigabyte, and measures memory, which the race detector changes")
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

func filled() *mesh {
	m := newMesh()
	m.chunks(benchRoutes, func(d *Directory, head schema.SlotHead, routes []schema.Route) { d.Sync(m.now, head, routes) })
	runtime.GC()
	return m
}

// watch is a stopwatch for what one iteration does apart from its preparation: what a message
// holds was decoded a moment ago, and so is near, while the directory's records are far.
type watch struct {
	spent time.Duration
	n     int
}

func (w *watch) run(n int, f func()) {
	began := time.Now()
	f()
	w.spent += time.Since(began)
	w.n += n
}

func (w *watch) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(w.spent.Nanoseconds())/float64(w.n), "ns/route")
}

// BenchmarkSync fills 256 directories with a million routes, 512 a message.
func BenchmarkSync(b *testing.B) {
	var w watch
	for b.Loop() {
		m := newMesh()
		for _, d := range m.slots {
			d.Rebuilding(true)
		}
		for from := range benchGateways * schema.Slots {
			routes := m.share(from)
			d := m.slots[slotOf(from)]
			w.run(len(routes), func() { d.Sync(m.now, *m.head(from), routes) })
		}
	}
	w.report(b)
}

// share gives the routes of one slot and gateway, near 390 of the million.
func (m *mesh) share(from int) (routes []schema.Route) {
	for i := from; i < benchRoutes; i += benchGateways * schema.Slots {
		routes = append(routes, m.routeOf(i))
	}
	return routes
}

// BenchmarkTouch renews all of a slot's routes of one gateway in one message.
func BenchmarkTouch(b *testing.B) {
	m := filled()
	var w watch
	from := 0
	for b.Loop() {
		from = (from + 7919) % (benchGateways * schema.Slots)
		var touched []schema.Touched
		for i := from; i < benchRoutes; i += benchGateways * schema.Slots {
			touched = append(touched, schema.Touched{Session: sessionOf(i)})
		}
		w.run(len(touched), func() {
			if x := m.slots[slotOf(from)].Touch(m.now, *m.head(from), touched); len(x) > 0 {
				b.Fatal(x[0])
			}
		})
	}
	w.report(b)
}

// BenchmarkLookup asks for 1,000 users at random, those of a slot together, as a request does.
func BenchmarkLookup(b *testing.B) {
	m := filled()
	var w watch
	wanted := make([]int, 1000)
	uids := make([]schema.UID, len(wanted))
	into := make([]schema.Route, 0, 1000)
	i := 0
	for b.Loop() {
		for n := range wanted {
			i = (i + 7919) % benchRoutes
			wanted[n] = i
		}
		slices.SortFunc(wanted, func(a, b int) int { return slotOf(a) - slotOf(b) })
		for n, w := range wanted {
			uids[n] = uidOf(w)
		}
		w.run(len(uids), func() {
			into = into[:0]
			for n, uid := range uids {
				into = m.slots[slotOf(wanted[n])].Lookup(m.now, uid, into)
			}
		})
	}
	w.report(b)
}

// BenchmarkConnect logs a device in and out again: register, unregister, two events.
func BenchmarkConnect(b *testing.B) {
	m := filled()
	b.ReportAllocs()
	i := 0
	seq := schema.OwnerSeq(benchRoutes)
	for b.Loop() {
		i = (i + 7919) % benchRoutes
		r := m.routeOf(i)
		head := *m.head(i)
		r.UID, r.Session, r.Seq = r.UID+"+", schema.NewSessionNum(uint32(i), 2), seq+1
		head.Settled = seq
		d := m.slots[slotOf(i)]
		res, _ := d.Register(m.now, head, schema.Login{Route: r})
		code, _ := d.Unregister(m.now, head, schema.Leave{UID: r.UID, Session: r.Session, Seq: seq + 2})
		if res.Code != schema.CodeOK || code != schema.CodeOK {
			b.Fatal(res, code)
		}
		seq += 2
	}
}

// BenchmarkReplace logs a device in where it is logged in already: register, conflict, commit.
func BenchmarkReplace(b *testing.B) {
	m := filled()
	b.ReportAllocs()
	i := 0
	seq := schema.OwnerSeq(benchRoutes)
	for b.Loop() {
		i = (i + 7919) % benchRoutes
		r := m.routeOf(i)
		seq++
		r.Session, r.Seq = schema.NewSessionNum(uint32(seq), 2), seq
		head := *m.head(i)
		head.Settled = seq
		d := m.slots[slotOf(i)]
		res, _ := d.Register(m.now, head, schema.Login{Route: r, Left: time.Second})
		ends := make([]schema.End, len(res.Conflicts))
		for n, x := range res.Conflicts {
			ends[n] = schema.End{Owner: x.Owner, Session: x.Session, How: schema.EndAnswered}
		}
		if res, _ = d.Commit(m.now, head, schema.CommitEntry{UID: r.UID, Session: r.Session, Token: res.Token, Ends: ends}); res.Code != schema.CodeOK {
			b.Fatal(res)
		}
	}
}

// TestChurnKeepsNoMemory: a million connects and closes of 10,000 users leave no more than 10,000 do.
func TestChurnKeepsNoMemory(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("takes seconds, and measures memory, which the race detector changes")
	}
	const users, rounds = 10_000, 100
	m := newMesh()
	var seq schema.OwnerSeq
	round := func(generation int) {
		for n := range users {
			seq++
			d, head := m.slots[slotOf(n)], *m.head(n)
			head.Settled = seq // what is answered at once is settled at once
			r := m.routeOf(n)
			r.Session, r.Seq = schema.NewSessionNum(uint32(n), uint32(generation)), seq
			res, _ := d.Register(m.now, head, schema.Login{Route: r})
			seq++
			code, _ := d.Unregister(m.now, head, schema.Leave{UID: r.UID, Session: r.Session, Seq: seq})
			if res.Code != schema.CodeOK || code != schema.CodeOK {
				t.Fatal(res, code)
			}
		}
	}
	round(1)
	before, held := heap(), m.records()
	for g := range rounds {
		round(g + 2)
	}
	after := heap()
	t.Logf("%d bytes and %d records after %d, %d bytes and %d records after %d", before, held, users, after, m.records(), users*(rounds+1))
	require.LessOrEqual(t, m.records(), held)
	require.Less(t, after, before+before/50)
	runtime.KeepAlive(m)
}

func (m *mesh) records() (n int) {
	for _, d := range m.slots {
		n += d.sessions.used
	}
	return n
}
