package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Whatever is read can be written, and is then read as the same.
func FuzzMessage(f *testing.F) {
	for _, m := range samples() {
		b, err := schema.Marshal(m)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { requireStable(t, b) })
}

// The same for the inside of each bin of columns, which Guard does not look into.
func FuzzColumns(f *testing.F) {
	bins := columnBins(f)
	for i, bin := range bins {
		f.Add(uint8(i), bin.data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		requireStable(t, bins[int(which)%len(bins)].with(data))
	})
}

func requireStable(t *testing.T, b []byte) {
	m, err := schema.UnmarshalAny(b)
	if err != nil {
		require.ErrorIs(t, err, schema.ErrMalformed)
		return
	}
	out, err := schema.Marshal(m)
	require.NoError(t, err)
	again, err := schema.UnmarshalAny(out)
	require.NoError(t, err)
	require.Equal(t, m, again)
	twice, err := schema.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, out, twice)
	require.True(t, json.Valid(schema.Describe(m)), "%s", schema.Describe(m))
}

// columnBin is one bin of a sample: its bytes, and the sample with others in its place.
type columnBin struct {
	data []byte
	with func([]byte) []byte
}

func columnBins(f *testing.F) (bins []columnBin) {
	for _, m := range samples() {
		b, err := schema.Marshal(m)
		require.NoError(f, err)
		var whole []any
		require.NoError(f, msgpack.Unmarshal(b, &whole))
		walk(whole, "", func(_ string, v any, set func(any)) {
			if data, ok := v.([]byte); ok {
				bins = append(bins, columnBin{data, func(other []byte) []byte {
					set(other)
					b, err := msgpack.Marshal(whole)
					set(data)
					if err != nil {
						panic(err) // the tree came from the library
					}
					return b
				}})
			}
		})
	}
	return bins
}
