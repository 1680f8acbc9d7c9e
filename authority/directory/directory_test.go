package directory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Unix(3_000_000, 0)

func headOf(p schema.Process) schema.SlotHead { return schema.SlotHead{From: p} }

var gw = schema.Process{Node: "g1", Boot: "boot-1"}

// fill logs n users in, from session 1 on.
func fill(t *testing.T, d *Directory, n int) {
	t.Helper()
	for i := range n {
		r := schema.Route{UID: schema.UID(fmt.Sprintf("u%d", i)), Session: schema.SessionNum(i + 1), Flag: "app", Seq: schema.OwnerSeq(i + 1)}
		res, _ := d.Register(start, headOf(gw), schema.Login{Route: r, Left: time.Second})
		require.Equal(t, schema.CodeOK, res.Code)
	}
}

// passes calls Expire until it has nothing left, and checks that each call is bounded.
func passes(t *testing.T, d *Directory, now time.Time) (calls int, events []schema.Event) {
	t.Helper()
	for more := true; more; calls++ {
		var some []schema.Event
		some, more = d.Expire(now)
		require.LessOrEqual(t, len(some), passWork)
		events = append(events, some...)
	}
	return calls, events
}

func TestPassesAreBounded(t *testing.T) {
	const n = 5 * passWork
	d := New(1, 7, Settings{})
	fill(t, d, n)
	now := start.Add(91 * time.Second)
	require.Empty(t, d.Lookup(now, "u17", nil), "what has lapsed is not seen, freed or not")
	calls, events := passes(t, d, now)
	require.Equal(t, 6, calls) // the last finds that nothing is left
	require.Len(t, events, n)
	require.Zero(t, d.Users())
	require.Equal(t, n, d.sessions.used, "their seqs are not settled")

	d.Touch(now, schema.SlotHead{From: gw, Settled: n + 1}, nil)
	calls, events = passes(t, d, now)
	require.GreaterOrEqual(t, calls, 5)
	require.Empty(t, events)
	require.Zero(t, d.sessions.used)
}

func TestGoneIsBounded(t *testing.T) {
	const n = 3 * passWork
	d := New(1, 7, Settings{})
	fill(t, d, n)
	require.Equal(t, []schema.Process{gw}, slices.Collect(d.Owners()))
	events := d.Gone(start, gw)
	require.Len(t, events, passWork)
	require.Zero(t, d.Routes())
	require.Empty(t, d.Counts())
	require.Empty(t, slices.Collect(d.Owners()))
	for i := range n {
		require.Empty(t, d.Lookup(start, schema.UID(fmt.Sprintf("u%d", i)), nil))
	}
	_, rest := passes(t, d, start)
	require.Len(t, rest, n-passWork)
	require.Zero(t, d.sessions.used)
}

// TestSweepsPassStragglers: a seq that stays open, or a superseded record, holds up no other.
func TestSweepsPassStragglers(t *testing.T) {
	d := New(1, 7, Settings{})
	for i := range 1000 {
		seq := schema.OwnerSeq(i + 10)
		if i == 0 {
			seq = 1_000_000
		}
		code, _ := d.Unregister(start, headOf(gw), schema.Leave{UID: "u", Session: schema.SessionNum(i + 1), Seq: seq})
		require.Equal(t, schema.CodeOK, code)
	}
	for i := range 300 { // each operation sweeps a little
		d.Touch(start, schema.SlotHead{From: gw, Settled: schema.OwnerSeq(2000 + i)}, nil)
	}
	require.Equal(t, 1, d.sessions.used)
}

// TestAnIdleSlotKeepsNoMoreThanItHad: a gateway whose sessions have all gone says nothing more to the
// slot. What is remembered of them stays, however long, takes no more room than they did, and goes with
// its next message.
func TestAnIdleSlotKeepsNoMoreThanItHad(t *testing.T) {
	const n = 3 * passWork
	d := New(1, 7, Settings{})
	fill(t, d, n)
	pages := len(d.slab.pages)
	for i := range n {
		head := schema.SlotHead{From: gw, Settled: n / 2} // the one with that seq is still open
		leave := schema.Leave{UID: schema.UID(fmt.Sprintf("u%d", i)), Session: schema.SessionNum(i + 1), Seq: schema.OwnerSeq(n + i + 1)}
		code, _ := d.Unregister(start, head, leave)
		require.Equal(t, schema.CodeOK, code)
	}
	for hours := range 24 {
		passes(t, d, start.Add(time.Duration(hours)*time.Hour))
	}
	require.Equal(t, n, d.sessions.used)
	require.Len(t, d.slab.pages, pages)
	late := schema.Login{Route: schema.Route{UID: "u7", Session: 8, Flag: "app", Seq: 8}, Left: time.Second}
	res, _ := d.Register(start.Add(24*time.Hour), headOf(gw), late)
	require.Equal(t, schema.CodeOldSeq, res.Code, "a register that was a day on its way")

	d.Touch(start.Add(24*time.Hour), schema.SlotHead{From: gw, Settled: 2*n + 1}, nil)
	passes(t, d, start.Add(24*time.Hour))
	require.Zero(t, d.sessions.used)
}

func TestMostConflictsOfOneAnswer(t *testing.T) {
	const n = mostNamed + 10
	p, err := ParsePolicy("multi")
	require.NoError(t, err)
	d := New(1, 7, Settings{Policy: p, MaxSessions: 2 * n})
	for i := range n {
		r := schema.Route{UID: "u", Device: schema.DeviceID(fmt.Sprint(i)), Session: schema.SessionNum(i + 1), Flag: "app", Seq: schema.OwnerSeq(i + 1)}
		res, _ := d.Register(start, headOf(gw), schema.Login{Route: r})
		require.Equal(t, schema.CodeOK, res.Code)
	}
	p, err = ParsePolicy("single")
	require.NoError(t, err)
	d.Configure(Settings{Policy: p})
	login := schema.Login{Route: schema.Route{UID: "u", Session: n + 1, Flag: "app", Seq: n + 1}, Left: time.Second}
	res, _ := d.Register(start, headOf(gw), login)
	require.Equal(t, schema.CodeConflict, res.Code)
	require.Len(t, res.Conflicts, mostNamed)
	for _, more := range []int{n - mostNamed, 0} {
		e := schema.CommitEntry{UID: "u", Session: n + 1, Token: res.Token}
		for _, c := range res.Conflicts {
			e.Ends = append(e.Ends, schema.End{Owner: c.Owner, Session: c.Session, How: schema.EndAnswered})
		}
		res, _ = d.Commit(start, headOf(gw), e)
		require.Len(t, res.Conflicts, more)
	}
	require.Equal(t, schema.CodeOK, res.Code)
	require.Len(t, d.Lookup(start, "u", nil), 1)
}

func TestDamperIsBounded(t *testing.T) {
	var x damper
	for device := range uint64(2 * dampDevice) {
		x.count(device, 0)
	}
	require.Len(t, x.fights, dampDevice)
	x.expire(dampSpan)
	require.Empty(t, x.fights)
}

func TestRefusalsAreBounded(t *testing.T) {
	d := New(1, 7, Settings{MaxSessions: 1})
	fill(t, d, 1)
	for i := range 2 * refusalsKept {
		r := schema.Route{UID: "u0", Session: schema.SessionNum(i + 2), Flag: "web", Seq: schema.OwnerSeq(i + 2)}
		res, _ := d.Register(start.Add(time.Duration(i)*time.Second), headOf(gw), schema.Login{Route: r})
		require.Equal(t, schema.CodeRefused, res.Code)
	}
	_, _, refused := d.Explain(start.Add(2*refusalsKept*time.Second), "u0")
	require.Len(t, refused, refusalsKept)
	require.Equal(t, schema.SessionNum(2*refusalsKept+1).Outside(gw.Boot), refused[refusalsKept-1].Session, "the newest is the last")
	require.Equal(t, int64(1000), refused[refusalsKept-1].AgoMS)
}

func TestNobodySendsNothing(t *testing.T) {
	d := New(1, 7, Settings{})
	res, _ := d.Register(start, schema.SlotHead{}, schema.Login{Route: schema.Route{UID: "u", Session: 1, Seq: 1}})
	require.Equal(t, schema.CodeRetry, res.Code)
	require.Empty(t, slices.Collect(d.Owners()))
}

func TestUIDsThatAreNone(t *testing.T) {
	for _, uid := range []schema.UID{"", schema.UID(strings.Repeat("x", schema.MaxUID+1))} {
		d := New(1, 7, Settings{})
		r := schema.Route{UID: uid, Session: 1, Seq: 1, Flag: "app"}
		res, _ := d.Register(start, headOf(gw), schema.Login{Route: r})
		require.Equal(t, schema.CodeBad, res.Code)
		code, _ := d.Unregister(start, headOf(gw), schema.Leave{UID: uid, Session: 1, Seq: 1})
		require.Equal(t, schema.CodeBad, code)
		verdicts, _, _ := d.Sync(start, headOf(gw), []schema.Route{r})
		require.Equal(t, schema.CodeBad, verdicts[0].Code)
		require.Empty(t, d.Lookup(start, uid, nil))
		require.Zero(t, d.sessions.used)
	}
	longest := schema.UID(strings.Repeat("x", schema.MaxUID))
	d := New(1, 7, Settings{})
	res, _ := d.Register(start, headOf(gw), schema.Login{Route: schema.Route{UID: longest, Device: "phone", Session: 1, Seq: 1}})
	require.Equal(t, schema.CodeOK, res.Code)
	got := d.Lookup(start, longest, nil)
	require.Len(t, got, 1)
	require.Equal(t, schema.DeviceID("phone"), got[0].Device)
}

// TestStringsAreCopied: what is decoded shares the memory of its whole message.
func TestStringsAreCopied(t *testing.T) {
	message := strings.Repeat("uid-1device-1flag-1listener-1node-1boot-1resume-1", 3)
	cut := func(s string) string { at := strings.Index(message, s); return message[at : at+len(s)] }
	in := schema.Route{
		UID: schema.UID(cut("uid-1")), Device: schema.DeviceID(cut("device-1")), Flag: schema.Flag(cut("flag-1")),
		Listener: schema.Listener(cut("listener-1")), Session: 1, Seq: 1,
	}
	p := schema.Process{Node: schema.NodeID(cut("node-1")), Boot: schema.BootID(cut("boot-1"))}
	d := New(1, 7, Settings{})
	for s := range schema.SessionNum(3) { // one committed, one pending, one refused
		in.Session, in.Seq, in.Gen = s+1, schema.OwnerSeq(s+1), schema.Generation(2-s)/2
		d.Register(start, headOf(p), schema.Login{Route: in, ResumeBoot: schema.BootID(cut("resume-1")), Left: time.Second})
	}
	in.Session, in.Seq, in.Gen = 9, 9, 1
	d.Register(start, headOf(p), schema.Login{Route: in, ResumeBoot: schema.BootID(cut("resume-1")), Left: time.Second})
	require.NotEmpty(t, d.pendings)
	require.NotEmpty(t, d.refusals.list)

	var kept []string
	keep := func(s ...string) { kept = append(kept, s...) }
	for i := range d.slab.size {
		keep(d.slab.at(i + 1).text)
	}
	for k := range d.classes.named {
		keep(string(k.flag), string(k.listener))
	}
	for k := range d.processes {
		keep(string(k.Node), string(k.Boot), string(d.owners[1].process.Node), string(d.owners[1].process.Boot))
	}
	for l := range maps.Values(d.pendings) {
		keep(string(l.resumeBoot))
	}
	for _, no := range d.refusals.list {
		keep(string(no.uid), string(no.node), string(no.boot))
	}
	from := uintptr(unsafe.Pointer(unsafe.StringData(message)))
	for _, s := range kept {
		at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
		require.False(t, s != "" && at >= from && at < from+uintptr(len(message)), "%q lies in the message", s)
	}
}

// TestClassesAreFreed: no client makes a directory grow by what it calls itself.
func TestClassesAreFreed(t *testing.T) {
	d := New(1, 7, Settings{})
	for i := range 1000 { // a client may call itself what it likes
		r := schema.Route{UID: "u", Session: schema.SessionNum(i + 1), Flag: schema.Flag(fmt.Sprint("f", i)), Seq: schema.OwnerSeq(2*i + 1)}
		head := schema.SlotHead{From: gw, Settled: r.Seq}
		res, _ := d.Register(start, head, schema.Login{Route: r})
		require.Equal(t, schema.CodeOK, res.Code)
		code, _ := d.Unregister(start, head, schema.Leave{UID: "u", Session: r.Session, Seq: r.Seq + 1})
		require.Equal(t, schema.CodeOK, code)
	}
	require.LessOrEqual(t, len(d.classes.list), 4)
}

func TestIndexAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		hashes := map[uint32]uint32{} // by record
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			record := rapid.Uint32Range(1, 60).Draw(t, "record")
			hash, in := hashes[record]
			switch {
			case in && rapid.Bool().Draw(t, "exchange"):
				if _, taken := hashes[record+100]; !taken {
					x.exchange(hash, record, record+100)
					delete(hashes, record)
					hashes[record+100] = hash
				}
			case in:
				x.remove(hash, record)
				delete(hashes, record)
			default: // few hashes, at both ends of the table
				hash = rapid.SampledFrom([]uint32{0, 1, 1 << 30, 1<<31 + 5, 1<<32 - 1}).Draw(t, "hash")
				x.insert(hash, record)
				hashes[record] = hash
			}
			for record, hash := range hashes {
				require.NotPanics(t, func() { x.find(hash, record) })
			}
			require.Equal(t, len(hashes), x.used)
		}
		for _, hash := range []uint32{0, 1, 2, 1 << 30, 1<<32 - 1} {
			want := []uint32{}
			for record, h := range hashes {
				if h == hash {
					want = append(want, record)
				}
			}
			got := []uint32{}
			for at, i := x.seek(hash, x.home(hash)); i != 0; at, i = x.seek(hash, at+1) {
				got = append(got, i)
			}
			require.ElementsMatch(t, want, got)
		}
	})
}
