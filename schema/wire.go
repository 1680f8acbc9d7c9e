package schema

import (
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// The part of msgpack that messages use: arrays, unsigned numbers, booleans, strings and bins,
// each written in its shortest form. Reading takes every form that Guard lets through.

const (
	maxFixInt   = 0x7f
	maxFixText  = 31
	maxFixArray = 15
)

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v <= maxFixInt:
		return append(b, byte(v))
	case v <= 0xff:
		return append(b, msgpcode.Uint8, byte(v))
	case v <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, msgpcode.Uint16), uint16(v))
	case v <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(b, msgpcode.Uint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, msgpcode.Uint64), v)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, msgpcode.True)
	}
	return append(b, msgpcode.False)
}

func appendText(b []byte, s string) []byte {
	if len(s) <= maxFixText {
		b = append(b, msgpcode.FixedStrLow|byte(len(s)))
	} else {
		b = appendLength(b, msgpcode.Str8, len(s))
	}
	return append(b, s...)
}

// appendLength writes one of the three codes from code8 on, and a length of 1, 2 or 4 bytes.
func appendLength(b []byte, code8 byte, n int) []byte {
	switch {
	case n <= 0xff:
		return append(b, code8, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, code8+1), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, code8+2), uint32(n))
}

func appendArrayHead(b []byte, n int) []byte {
	switch {
	case n <= maxFixArray:
		return append(b, msgpcode.FixedArrayLow|byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(b, msgpcode.Array16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, msgpcode.Array32), uint32(n))
}

// take removes n bytes from what is left to be read.
func (c *coder) take(n int) []byte {
	if n < 0 || n > len(c.in) {
		c.keep(errShort)
		return nil
	}
	b := c.in[:n]
	c.in = c.in[n:]
	return b
}

// lead removes the first byte of a value; 0 after an error.
func (c *coder) lead() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

// big removes a number of width bytes, the highest first.
func (c *coder) big(width int) (n uint64) {
	for _, b := range c.take(width) {
		n = n<<8 | uint64(b)
	}
	return n
}

// length removes a length of width bytes.
func (c *coder) length(width int) int { return int(min(c.big(width), 1<<31-1)) }

// readUint refuses whatever is no whole number from 0: nil, floats and negative ones too.
func (c *coder) readUint(what string) uint64 {
	code := c.lead()
	switch {
	case c.err != nil || code <= maxFixInt:
		return uint64(code)
	case code >= msgpcode.Uint8 && code <= msgpcode.Uint64:
		return c.big(1 << (code - msgpcode.Uint8))
	case code >= msgpcode.Int8 && code <= msgpcode.Int64:
		width := 1 << (code - msgpcode.Int8)
		if n := c.big(width); n>>(8*width-1) == 0 {
			return n
		}
	}
	c.wrong(what, code, "a number from 0")
	return 0
}

func (c *coder) readBool(what string) bool {
	code := c.lead()
	if code != msgpcode.True && code != msgpcode.False {
		c.wrong(what, code, "a boolean")
	}
	return code == msgpcode.True
}

// readText gives the bytes of a string; they belong to the message.
func (c *coder) readText(what string) []byte {
	code := c.lead()
	switch {
	case code >= msgpcode.FixedStrLow && code <= msgpcode.FixedStrLow|maxFixText:
		return c.take(int(code &^ msgpcode.FixedStrLow))
	case code >= msgpcode.Str8 && code < msgpcode.Str8+3:
		return c.take(c.length(1 << (code - msgpcode.Str8)))
	}
	c.wrong(what, code, "a string")
	return nil
}

// readBin gives the bytes of a bin; they belong to the message.
func (c *coder) readBin(what string) []byte {
	code := c.lead()
	if code < msgpcode.Bin8 || code >= msgpcode.Bin8+3 {
		c.wrong(what, code, "bytes")
		return nil
	}
	return c.take(c.length(1 << (code - msgpcode.Bin8)))
}

// readArrayHead gives the number of elements; there are at least as many bytes.
func (c *coder) readArrayHead(what string) int {
	code := c.lead()
	n := 0
	switch {
	case code >= msgpcode.FixedArrayLow && code <= msgpcode.FixedArrayLow|maxFixArray:
		n = int(code &^ msgpcode.FixedArrayLow)
	case code == msgpcode.Array16 || code == msgpcode.Array32:
		n = c.length(2 << (code - msgpcode.Array16))
	default:
		c.wrong(what, code, "an array")
	}
	if n > len(c.in) {
		c.keep(errLength)
		return 0
	}
	return n
}

// skip removes one value of any kind.
func (c *coder) skip() {
	g := guard{rest: c.in}
	c.keep(g.value(maxDepth))
	c.in = g.rest
}

func (c *coder) wrong(what string, code byte, want string) {
	c.fail("%s is %#x where %s is needed", what, code, want)
}
