package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// appendMsgpack appends the msgpack form of compact, valid JSON whose depth was checked. Names
// keep their order. Whole numbers that fit 64 bits stay whole, all others become the nearest
// float64 (beyond its range the largest one).
func appendMsgpack(dst, text []byte) []byte {
	t := transcoder{out: dst, text: text}
	t.value()
	return t.out
}

// transcoder walks JSON text from at on and appends msgpack to out.
type transcoder struct {
	out  []byte
	text []byte
	at   int
}

// value takes one value; recursion is bounded by the depth checked before.
func (t *transcoder) value() {
	switch t.text[t.at] {
	case '{':
		t.items('}', 0x80, 0xde)
	case '[':
		t.items(']', 0x90, 0xdc)
	case '"':
		t.out = appendText(t.out, t.str())
	case 'n':
		t.at += len("null")
		t.out = append(t.out, msgpcode.Nil)
	case 't':
		t.at += len("true")
		t.out = append(t.out, msgpcode.True)
	case 'f':
		t.at += len("false")
		t.out = append(t.out, msgpcode.False)
	default:
		t.number()
	}
}

// items takes the items of an object or array up to end. Their number is known only afterwards:
// the head's first byte is held free, and more are inserted where there are 16 items or more.
func (t *transcoder) items(end, small, wide byte) {
	head, n := len(t.out), 0
	t.out = append(t.out, small)
	for t.at++; t.text[t.at] != end; n++ {
		if t.text[t.at] == ',' {
			t.at++
		}
		if end == '}' {
			t.out = appendText(t.out, t.str())
			t.at++ // the colon
		}
		t.value()
	}
	t.at++
	switch {
	case n < 16:
		t.out[head] |= byte(n)
	case n <= math.MaxUint16:
		t.out[head] = wide
		t.out = slices.Insert(t.out, head+1, byte(n>>8), byte(n))
	default:
		t.out[head] = wide + 1
		t.out = slices.Insert(t.out, head+1, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
}

func (t *transcoder) str() string {
	end := endOfString(t.text, t.at) + 1
	quoted := t.text[t.at:end]
	t.at = end
	if plain := quoted[1 : len(quoted)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return string(plain)
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid, by the caller's word; lone surrogates become U+FFFD
	return s
}

func (t *transcoder) number() {
	start := t.at
	for t.at < len(t.text) && bytes.IndexByte([]byte("+-.0123456789eE"), t.text[t.at]) >= 0 {
		t.at++
	}
	literal := string(t.text[start:t.at])
	if i, err := strconv.ParseInt(literal, 10, 64); err == nil && literal != "-0" {
		t.out = appendMsgpackInt(t.out, i)
		return
	}
	if u, err := strconv.ParseUint(literal, 10, 64); err == nil {
		t.out = appendUint(t.out, u)
		return
	}
	f, _ := strconv.ParseFloat(literal, 64) // the only error is overflow, to an infinity
	f = max(-math.MaxFloat64, min(f, math.MaxFloat64))
	t.out = binary.BigEndian.AppendUint64(append(t.out, msgpcode.Double), math.Float64bits(f))
}

func appendMsgpackInt(dst []byte, i int64) []byte {
	switch {
	case i >= 0:
		return appendUint(dst, uint64(i))
	case i >= -32:
		return append(dst, byte(i))
	case i >= math.MinInt8:
		return append(dst, msgpcode.Int8, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, msgpcode.Int16), uint16(i))
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, msgpcode.Int32), uint32(i))
	}
	return binary.BigEndian.AppendUint64(append(dst, msgpcode.Int64), uint64(i))
}

// jsonOfMsgpack gives the JSON text of msgpack that has passed Guard. Bytes become base64 text.
// It returns ErrMalformed for what JSON has no word for: keys that are no strings, NaN, infinities.
func jsonOfMsgpack(b []byte) ([]byte, error) {
	d := msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(bytes.NewReader(b))
	out, err := appendJSON(make([]byte, 0, 2*len(b)), d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return out, nil
}

// appendJSON takes one value; recursion is bounded by Guard.
func appendJSON(dst []byte, d *msgpack.Decoder) ([]byte, error) {
	c, err := d.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		return appendJSONObject(dst, d)
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return appendJSONArray(dst, d)
	case msgpcode.IsString(c):
		s, err := d.DecodeString()
		return appendJSONText(dst, s), err
	case msgpcode.IsBin(c):
		raw, err := d.DecodeBytes()
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), raw), '"'), err
	case c == msgpcode.Nil:
		return append(dst, "null"...), d.DecodeNil()
	case c == msgpcode.True, c == msgpcode.False:
		v, err := d.DecodeBool()
		return strconv.AppendBool(dst, v), err
	case c == msgpcode.Uint64:
		v, err := d.DecodeUint64()
		return strconv.AppendUint(dst, v, 10), err
	case c == msgpcode.Float, c == msgpcode.Double:
		return appendJSONFloat(dst, d)
	}
	v, err := d.DecodeInt64()
	return strconv.AppendInt(dst, v, 10), err
}

func appendJSONObject(dst []byte, d *msgpack.Decoder) ([]byte, error) {
	n, err := d.DecodeMapLen()
	if err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if c, err := d.PeekCode(); err == nil && !msgpcode.IsString(c) {
			return nil, errors.New("a map has a key that is no string")
		}
		if dst, err = appendJSON(dst, d); err != nil {
			return nil, err
		}
		if dst, err = appendJSON(append(dst, ':'), d); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendJSONArray(dst []byte, d *msgpack.Decoder) ([]byte, error) {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendJSON(dst, d); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendJSONFloat(dst []byte, d *msgpack.Decoder) ([]byte, error) {
	f, err := d.DecodeFloat64()
	if err != nil {
		return nil, err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v is no JSON number", f)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64), nil
}

// appendJSONText quotes valid UTF-8.
func appendJSONText(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
