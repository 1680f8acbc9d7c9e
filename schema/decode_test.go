package schema_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The library is the second reader and writer of these bytes: it takes samples apart into trees of
// []any, which are then bent, and puts them together in forms that Marshal never gives.

func marshal(t *testing.T, m schema.Message) []byte {
	t.Helper()
	b, err := schema.Marshal(m)
	require.NoError(t, err)
	return b
}

func tree(t *testing.T, m schema.Message) []any {
	t.Helper()
	var v []any
	require.NoError(t, msgpack.Unmarshal(marshal(t, m), &v))
	return v
}

// pack writes whole numbers in their longest form.
func pack(t *testing.T, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	require.NoError(t, err)
	return b
}

func name(i int, m schema.Message) string { return fmt.Sprintf("%d %s", i, m.Kind()) }

func TestUnmarshalOtherForms(t *testing.T) {
	for i, m := range samples() {
		t.Run(name(i, m), func(t *testing.T) {
			got, err := schema.UnmarshalAny(pack(t, tree(t, m)))
			require.NoError(t, err)
			require.Equal(t, m, got)
		})
	}
}

func TestUnmarshalCutOrLonger(t *testing.T) {
	for i, m := range samples() {
		t.Run(name(i, m), func(t *testing.T) {
			b := marshal(t, m)
			for n := range b {
				_, err := schema.UnmarshalAny(b[:n])
				require.ErrorIs(t, err, schema.ErrMalformed, "%d of %d bytes", n, len(b))
			}
			_, err := schema.UnmarshalAny(append(bytes.Clone(b), 0xc0))
			require.ErrorIs(t, err, schema.ErrMalformed)
		})
	}
}

// walk calls visit with each place of a tree: get and set what stands there.
func walk(list []any, path string, visit func(path string, v any, set func(any))) {
	for i, v := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		visit(at, v, func(v any) { list[i] = v })
		if inner, ok := v.([]any); ok {
			walk(inner, at, visit)
		}
	}
}

// isList tells a list of entries from the fields of one: only the former holds nothing but arrays.
func isList(v []any) bool {
	for _, x := range v {
		if _, ok := x.([]any); !ok {
			return false
		}
	}
	return true
}

// A field that a newer process has added behind those of any array is skipped; one that is
// missing is not made up.
func TestUnmarshalMoreAndFewerFields(t *testing.T) {
	news := []any{nil, 1.5, -1, "new", []any{map[string]any{"deep": []any{1}}}}
	for i, m := range samples() {
		t.Run(name(i, m), func(t *testing.T) {
			whole := tree(t, m)
			more, err := schema.UnmarshalAny(pack(t, append(append([]any{}, whole...), news...)))
			require.NoError(t, err)
			require.Equal(t, m, more)
			if len(whole) > 2 {
				_, err = schema.UnmarshalAny(pack(t, whole[:len(whole)-1]))
				require.ErrorContains(t, err, "is missing")
			}
			walk(whole, "", func(path string, v any, set func(any)) {
				fields, ok := v.([]any)
				if !ok || isList(fields) {
					return
				}
				set(append(append([]any{}, fields...), news...))
				more, err := schema.UnmarshalAny(pack(t, whole))
				require.NoError(t, err, path)
				require.Equal(t, m, more, path)
				set(fields[:len(fields)-1])
				_, err = schema.UnmarshalAny(pack(t, whole))
				require.ErrorIs(t, err, schema.ErrMalformed, path)
				require.ErrorContains(t, err, "is missing", path)
				set(v)
			})
		})
	}
}

// No field takes a value of another type, nor what the library would bend into one.
func TestUnmarshalWrongType(t *testing.T) {
	wrong := []any{nil, -1, int64(-1 << 40), 1.5, float32(1), map[string]any{}, "text", []byte("bytes"), true, []any{}, uint64(1)}
	for i, m := range samples() {
		t.Run(name(i, m), func(t *testing.T) {
			whole := tree(t, m)
			walk(whole, "", func(path string, v any, set func(any)) {
				for _, w := range wrong {
					if class(v) == class(w) {
						continue
					}
					set(w)
					_, err := schema.UnmarshalAny(pack(t, whole))
					require.ErrorIs(t, err, schema.ErrMalformed, "%s: %T(%v) for %T", path, w, w, v)
				}
				set(v)
			})
		})
	}
}

func class(v any) string {
	r := reflect.ValueOf(v)
	switch {
	case !r.IsValid():
		return "nil"
	case r.CanUint(), r.CanInt() && r.Int() >= 0:
		return "number"
	}
	return r.Type().String()
}

func TestUnmarshalRefuses(t *testing.T) {
	head := func(change func(h []any)) []any {
		v := tree(t, &schema.Touch{Head: head})
		change(v[2].([]any))
		return v
	}
	for name, tc := range map[string]struct {
		tree []any
		want string
	}{
		"empty":             {[]any{}, "kind is missing"},
		"kind alone":        {[]any{4}, "version is missing"},
		"unknown kind":      {[]any{63, 1}, "kind(63) is unknown to this version"},
		"kind beyond":       {[]any{300, 1}, "kind is 300 where at most 255 is allowed"},
		"version 0":         {[]any{int(schema.KindStatus), 0}, "version 0 is none"},
		"slot":              {head(func(h []any) { h[0] = 256 }), "at most 255"},
		"long node":         {head(func(h []any) { h[2] = string(make([]byte, 65)) }), "has 65 bytes where at most 64"},
		"node in a subject": {head(func(h []any) { h[2] = "a.b" }), "node"},
		"boot in a subject": {head(func(h []any) { h[3] = "*" }), "boot"},
		"node without boot": {head(func(h []any) { h[5], h[6] = "", "x" }), "node"},
		"empty uid":         {[]any{int(schema.KindRevoke), 1, "", "", "", 3505, ""}, "uid is empty"},
		"long uid":          {[]any{int(schema.KindRevoke), 1, string(bytes.Repeat([]byte("u"), 257)), "", "", 3505, ""}, "at most 256"},
		"control character": {[]any{int(schema.KindRevoke), 1, "a\nb", "", "", 3505, ""}, "control character"},
		"close code":        {[]any{int(schema.KindRevoke), 1, "a", "", "", 65536, ""}, "at most 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.UnmarshalAny(pack(t, tc.tree))
			require.ErrorIs(t, err, schema.ErrMalformed)
			require.ErrorContains(t, err, tc.want)
		})
	}
	err := schema.Unmarshal(marshal(t, &schema.Status{}), &schema.Kick{})
	require.ErrorIs(t, err, schema.ErrMalformed)
	require.ErrorContains(t, err, "kind status where kick is needed")
}

// A process of the next version may say things that this one has no word for.
func TestUnmarshalUnknownValues(t *testing.T) {
	m := tree(t, &schema.KickAnswer{ProcessHead: schema.ProcessHead{From: gateway}})
	m[1] = 2                      // version
	m[2].([]any)[2] = 200         // code
	m[3] = []byte{2, 99, 200, 01} // results
	var kick schema.KickAnswer
	require.NoError(t, schema.Unmarshal(pack(t, m), &kick))
	require.Equal(t, schema.CodeInternal, kick.Code)
	require.Equal(t, []schema.Code{schema.CodeInternal, schema.CodeInternal}, kick.Results)

	leave := tree(t, &schema.Unregister{Head: head, Entries: []schema.Leave{{UID: "a", Reason: schema.ReasonSlow}}})
	leave[3].([]any)[0].([]any)[3] = 99
	var got schema.Unregister
	require.NoError(t, schema.Unmarshal(pack(t, leave), &got))
	require.Zero(t, got.Entries[0].Reason)

	acks := tree(t, &schema.PushAcks{From: gateway})
	acks[4] = []byte{1, 77}
	var push schema.PushAcks
	require.NoError(t, schema.Unmarshal(pack(t, acks), &push))
	require.Equal(t, []schema.PushResult{schema.PushUnknown}, push.Results)
}

func TestUnmarshalSharesNothing(t *testing.T) {
	for i, m := range samples() {
		t.Run(name(i, m), func(t *testing.T) {
			b := marshal(t, m)
			got, err := schema.UnmarshalAny(b)
			require.NoError(t, err)
			clear(b)
			require.Equal(t, m, got)
		})
	}
}

// More losers than a message has room for are left out: their next touch tells them.
func TestMarshalCutsLosers(t *testing.T) {
	m := &schema.SyncAnswer{Losers: make([]schema.Loser, schema.MaxLosers+1)}
	for i := range m.Losers {
		m.Losers[i].UID = "a"
	}
	var got schema.SyncAnswer
	require.NoError(t, schema.Unmarshal(marshal(t, m), &got))
	require.Equal(t, m.Losers[:schema.MaxLosers], got.Losers)
	require.Len(t, m.Losers, schema.MaxLosers+1)
}

func TestMarshalRefuses(t *testing.T) {
	many := make([]schema.Leave, schema.MaxEntries+1)
	for name, m := range map[string]schema.Message{
		"slot":                &schema.Touch{Head: schema.SlotHead{Target: schema.Target{Slot: 256}}},
		"too many entries":    &schema.Unregister{Entries: many},
		"too many rows":       &schema.Sync{Routes: make([]schema.Route, schema.MaxSync+1)},
		"empty uid":           &schema.Sync{Routes: make([]schema.Route, 1)},
		"uid not UTF-8":       &schema.Lookup{Groups: []schema.LookupGroup{{Count: 1}}, UIDs: []schema.UID{"\xff"}},
		"counts":              &schema.Lookup{Groups: []schema.LookupGroup{{Count: 2}}, UIDs: []schema.UID{"a"}},
		"device not UTF-8":    &schema.Revoke{UID: "a", Device: "\xff"},
		"long sentence":       &schema.Revoke{UID: "a", Why: string(make([]byte, 513))},
		"level":               &schema.Register{Logins: []schema.Login{{Route: schema.Route{UID: "a", Level: 2}}}},
		"level in a row":      &schema.Sync{Routes: []schema.Route{{UID: "a", Level: 2}}},
		"flag":                &schema.Sync{Routes: []schema.Route{{UID: "a", Flag: "App"}}},
		"no ending":           &schema.Commit{Entries: []schema.CommitEntry{{UID: "a", Ends: make([]schema.End, 1)}}},
		"unknown code":        &schema.KickAnswer{ProcessHead: schema.ProcessHead{Code: 99}},
		"unknown code in row": &schema.KickAnswer{Results: []schema.Code{99}},
		"touches not sorted":  &schema.Touch{Sessions: []schema.Touched{{Session: 2}, {Session: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Marshal(m)
			require.ErrorIs(t, err, schema.ErrMalformed)
		})
	}
}
