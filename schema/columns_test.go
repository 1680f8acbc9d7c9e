package schema

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// row has a field of each form that a column can take.
type row struct {
	UID     UID
	Owner   Process
	Flag    Flag
	Session SessionNum
	Seq     OwnerSeq
	Code    Code
	Count   uint16
	Age     time.Duration
}

func (c *columns) rowsOf(r *[]row) {
	rows(c, r, 100, 7)
	n := len(*r)
	c.uids(n, func(i int) *UID { return &(*r)[i].UID })
	c.processes(n, func(i int) *Process { return &(*r)[i].Owner })
	labels(c, n, MaxFlag, func(i int) *Flag { return &(*r)[i].Flag })
	c.sessions(n, func(i int) *SessionNum { return &(*r)[i].Session })
	deltas(c, n, func(i int) *OwnerSeq { return &(*r)[i].Seq })
	c.codes(n, func(i int) *Code { return &(*r)[i].Code })
	numbers(c, n, func(i int) *uint16 { return &(*r)[i].Count })
	durations(c, n, time.Millisecond, func(i int) *time.Duration { return &(*r)[i].Age })
}

func readRows(in string) ([]row, error) {
	c := columns{in: in}
	var r []row
	c.rowsOf(&r)
	if c.err == nil && c.left() > 0 {
		c.err = errTotal
	}
	return r, c.err
}

func writeRows(r []row) (string, error) {
	c := columns{writing: true}
	c.rowsOf(&r)
	return string(c.out), c.err
}

func TestColumnsForm(t *testing.T) {
	r := []row{
		{"a", Process{"n", "b"}, "app", NewSessionNum(5, 1), 900, CodeOK, 7, 300 * time.Millisecond},
		{"bc", Process{"n", "b"}, "web", NewSessionNum(4, 2), 899, CodeBusy, 300, 0},
	}
	out, err := writeRows(r)
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{
		"\x02",                                       // rows
		"\x01\x02" + "abc",                           // uids: lengths, bytes
		"\x01" + "\x01n" + "\x01b",                   // one process: no indexes
		"\x02" + "\x03\x03appweb" + "\x00\x01",       // two flags, an index a row
		"\x0a\x01" + "\x01\x02",                      // sessions: +5, -1; generations
		"\x88\x0e\x01",                               // seqs: +900, -1
		"\x00\x05" + "\x07\xac\x02" + "\xac\x02\x00", // codes, counts, ages
	}, ""), out)
	got, err := readRows(out)
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func TestColumnsRefuse(t *testing.T) {
	const one = "\x01" + "\x01a" + "\x01\x01n\x01b" + "\x01\x00" + "\x02\x01" + "\x02" + "\x00" + "\x00" + "\x00"
	_, err := readRows(one)
	require.NoError(t, err)
	const beyond = "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02" // 2^64
	for name, tc := range map[string]struct {
		in   string
		want string
	}{
		"nothing":              {"", "cut off"},
		"more rows than most":  {"\x65" + strings.Repeat("\x00", 1000), "101 rows where at most 100 are allowed"},
		"huge rows":            {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "rows where at most 100"},
		"rows beyond 64 bits":  {beyond, "number above its limit"},
		"rows of 11 bytes":     {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "number"},
		"rows in no bytes":     {"\x0a" + strings.Repeat("\x00", 69), "10 rows in 69 bytes"},
		"long form of 1":       {"\x81\x00" + one[1:], "number not in its shortest form"},
		"long form of 0":       {"\x80\x00", "number not in its shortest form"},
		"long uid":             {"\x01\x81\x02" + strings.Repeat("a", 300), "number above its limit"},
		"uid beyond the end":   {"\x01\x20" + one[2:], "cut off"},
		"empty uid":            {"\x01\x00" + one[3:], "uid is empty"},
		"uid not UTF-8":        {"\x01\x01\xff" + one[3:], "not UTF-8"},
		"control in uid":       {"\x01\x01\n" + one[3:], "control character"},
		"no words":             {"\x01\x01a\x00\x00\x00\x00\x00\x00\x00", "no word for 1 rows"},
		"more words than rows": {"\x01\x01a\x02\x01\x01nn\x01\x01bb\x00", "2 rows where at most 1"},
		"word not there":       {"\x02\x01\x01ab\x02\x01\x01nm\x01\x01bc\x00\x02" + strings.Repeat("\x00", 20), "number above its limit"},
		"node with a dot":      {"\x01" + "\x01a" + "\x01\x01.\x01b" + one[8:], "node"},
		"boot without node":    {"\x01" + "\x01a" + "\x01\x00\x01b" + one[7:], "node"},
		"long boot":            {"\x01" + "\x01a" + "\x01\x01n\x17" + strings.Repeat("b", 40), "number above its limit"},
		"flag in upper case":   {"\x01" + "\x01a" + "\x01\x01n\x01b" + "\x01\x01A" + one[10:], "flag"},
		"index below 0":        {one[:10] + "\x01" + one[11:], "number above its limit"},
		"index above 32 bits":  {one[:10] + "\x80\x80\x80\x80\x20" + one[11:], "number above its limit"},
		"generation above":     {one[:11] + "\x80\x80\x80\x80\x10" + one[12:], "number above its limit"},
		"seq above 64 bits":    {one[:12] + beyond + one[13:], "number above its limit"},
		"code above a byte":    {one[:13] + "\x80\x02" + one[14:], "number above its limit"},
		"count above its type": {one[:14] + "\x80\x80\x04" + one[15:], "number above its limit"},
		"age that wraps":       {one[:15] + "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "number above its limit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readRows(tc.in)
			require.ErrorContains(t, err, tc.want)
		})
	}
	for n := range len(one) {
		_, err := readRows(one[:n])
		require.Error(t, err, "%d bytes", n)
	}
}

// worst are answers whose rows are as short as they can be: what a decoder allocates for them is
// the most it ever does for so many bytes.
func TestColumnsWorstAllocation(t *testing.T) {
	const n = 40_000
	routes := make([]Route, n)
	for i := range routes {
		routes[i].Owner = Process{"n", BootID(string(rune('a'+i%26)) + string(rune('a'+i/26%26)))}
	}
	touched := make([]Touched, n)
	for name, m := range map[string]Message{
		"routes":  &LookupAnswer{Counts: []uint32{n}, Routes: routes},
		"touches": &Touch{Sessions: touched},
		"results": &PushAnswer{Results: make([]PushResult, n)},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Marshal(m)
			require.NoError(t, err)
			requireFactor(t, b, nil)
		})
	}
	// Rows that declare ever more words of ever fewer bytes.
	hostile := columns{writing: true}
	hostile.put(0)                                           // groups
	hostile.put(0)                                           // counts
	hostile.put(n)                                           // routes
	hostile.put(n)                                           // processes
	hostile.out = append(hostile.out, make([]byte, 20*n)...) // all empty
	b := appendUint(appendUint(appendArrayHead(nil, 4), uint64(KindLookupAnswer)), version)
	b = append(appendArrayHead(b, 4), "\xa0\xa0\x00\xa0"...)
	b = append(appendLength(b, msgpcode.Bin8, len(hostile.out)), hostile.out...)
	requireFactor(t, b, ErrMalformed)
	// Lists that declare as many entries as there are bytes.
	b = appendUint(appendUint(appendArrayHead(nil, 4), uint64(KindPush)), version)
	b = append(b, 0xa0, 0xa0)
	b = append(appendArrayHead(b, MaxFrames), bytes.Repeat([]byte{0}, MaxFrames)...)
	requireFactor(t, b, ErrMalformed)
}

func requireFactor(t *testing.T, b []byte, want error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := UnmarshalAny(b)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, want)
	const factor, fixed = 32, 128 << 10
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(factor*len(b)+fixed), "%d bytes", len(b))
	t.Logf("%d bytes: %.1f bytes allocated for each", len(b), float64(after.TotalAlloc-before.TotalAlloc)/float64(len(b)))
}
