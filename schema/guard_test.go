package schema

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

func TestGuard(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want string // "" for none
	}{
		"nil":                    {"\xc0", ""},
		"small numbers":          {"\x93\x00\x7f\xe0", ""},
		"every number":           {"\x9a\xcc0\xcd00\xce0000\xcf00000000\xd00\xd100\xd20000\xd300000000\xca0000\xcb00000000", ""},
		"strings":                {"\x94\xa1a\xd9\x01a\xda\x00\x01a\xdb\x00\x00\x00\x01a", ""},
		"bins":                   {"\x93\xc4\x01\xff\xc5\x00\x01\xff\xc6\x00\x00\x00\x01\xff", ""},
		"maps":                   {"\x93\x81\x01\x02\xde\x00\x01\xc2\xc3\xdf\x00\x00\x00\x00", ""},
		"arrays":                 {"\x92\xdc\x00\x01\x01\xdd\x00\x00\x00\x00", ""},
		"as deep as allowed":     {"\x91\x91\x91\x01", ""},
		"nothing":                {"", "cut off at byte 0"},
		"two values":             {"\x01\x02", "1 bytes after its end"},
		"too deep":               {"\x91\x91\x91\x91\x01", "nested too deep at byte 4"},
		"deep map":               {"\x81\x01\x91\x91\x91\x01", "nested too deep"},
		"the code of nothing":    {"\xc1", "type not allowed at byte 1"},
		"fixext":                 {"\xd4\x01\x01", "type not allowed"},
		"ext":                    {"\xc7\x01\x01\x01", "type not allowed"},
		"array of 4 G":           {"\xdd\xff\xff\xff\xff", "length beyond the end"},
		"map of 4 G":             {"\xdf\xff\xff\xff\xff", "length beyond the end"},
		"map of half its pairs":  {"\xde\x00\x02\x01\x01\x01", "length beyond the end"},
		"bin of 4 G":             {"\xc6\xff\xff\xff\xff", "length beyond the end"},
		"string of 4 G":          {"\xdb\xff\xff\xff\xffa", "length beyond the end"},
		"fixarray":               {"\x9f\x01", "length beyond the end"},
		"fixmap":                 {"\x81\x01", "length beyond the end"},
		"string cut":             {"\xa2a", "cut off"},
		"number cut":             {"\xcf0000000", "cut off"},
		"length cut":             {"\xda\x00", "cut off"},
		"invalid UTF-8":          {"\xa1\xff", "not UTF-8"},
		"invalid UTF-8 in a key": {"\x81\xa1\xff\x01", "not UTF-8"},
		"half a rune":            {"\x92\xa1\xc3\xa1\xa9", "not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Guard([]byte(tc.in), 3)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrMalformed)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// One pass, whatever the bytes: a million arrays in one another stop it at once.
func TestGuardDepthIsBounded(t *testing.T) {
	require.ErrorContains(t, Guard(bytes.Repeat([]byte{0x91}, 1_000_000), maxDepth), "nested too deep at byte 9")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if Guard([]byte("\x93\x01\xa1a\xc4\x01a"), maxDepth) != nil {
			panic("refused")
		}
	}))
}

// What Guard lets through is one value to the library too, of which it can skip every byte.
func FuzzGuard(f *testing.F) {
	for _, s := range []string{"\xc0", "\x93\x01\xa1a\xc4\x01a", "\x81\xa1a\xcb00000000", "\xdd\xff\xff\xff\xff", strings.Repeat("\x91", 20), "\xdf\x00\x00\x00\x01\xc0\xc0"} {
		f.Add([]byte(s), 5)
	}
	f.Fuzz(func(t *testing.T, b []byte, depth int) {
		if depth > 100 || Guard(b, depth) != nil {
			return
		}
		r := bytes.NewReader(b)
		dec := msgpack.NewDecoder(r)
		require.NoError(t, dec.Skip())
		_, err := dec.PeekCode()
		require.ErrorIs(t, err, io.EOF)
	})
}
