package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrMalformed is returned when bytes from outside are not a message that this package reads:
// broken or hostile encoding, a wrong kind, a missing field, or a number out of its range.
var ErrMalformed = errors.New("malformed message")

// maxDepth is how deep the arrays of messages may nest: ours are 5 deep, and what a newer process
// adds may go a little deeper.
const maxDepth = 8

// Guard checks untrusted msgpack in one pass over its bytes, before anything is decoded or
// allocated: exactly one value, no deeper than depth, no extension types, each declared length no
// larger than the bytes left, and strings of valid UTF-8. It returns ErrMalformed otherwise.
// The library checks none of these (a 5-byte message can make it allocate gigabytes).
func Guard(b []byte, depth int) error {
	g := guard{rest: b}
	if err := g.value(depth); err != nil {
		return fmt.Errorf("%w: %s at byte %d", ErrMalformed, err, len(b)-len(g.rest))
	}
	if len(g.rest) > 0 {
		return fmt.Errorf("%w: %d bytes after its end", ErrMalformed, len(g.rest))
	}
	return nil
}

type guard struct{ rest []byte }

var (
	errShort   = errors.New("cut off")
	errDeep    = errors.New("nested too deep")
	errUTF8    = errors.New("string is not UTF-8")
	errLength  = errors.New("length beyond the end")
	errUnknown = errors.New("type not allowed")
)

// value walks one value; recursion is bounded by depth.
func (g *guard) value(depth int) error {
	code, err := g.take(1)
	if err != nil {
		return err
	}
	c := code[0]
	switch {
	case c <= 0x7f || c >= 0xe0: // fixint
		return nil
	case c <= 0x8f:
		return g.items(2*int(c&0x0f), depth)
	case c <= 0x9f:
		return g.items(int(c&0x0f), depth)
	case c <= 0xbf:
		return g.text(int(c & 0x1f))
	}
	return g.sized(c, depth)
}

func (g *guard) sized(c byte, depth int) error {
	switch c {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return nil
	case 0xcc, 0xd0:
		return g.skip(1)
	case 0xcd, 0xd1:
		return g.skip(2)
	case 0xca, 0xce, 0xd2:
		return g.skip(4)
	case 0xcb, 0xcf, 0xd3:
		return g.skip(8)
	}
	var width int
	switch c {
	case 0xc4, 0xd9:
		width = 1
	case 0xc5, 0xda, 0xdc, 0xde:
		width = 2
	case 0xc6, 0xdb, 0xdd, 0xdf:
		width = 4
	default:
		return errUnknown
	}
	n, err := g.length(width)
	if err != nil {
		return err
	}
	switch {
	case c <= 0xc6:
		return g.skip(n)
	case c <= 0xdb:
		return g.text(n)
	case c <= 0xdd:
		return g.items(n, depth)
	}
	return g.items(2*n, depth)
}

func (g *guard) length(width int) (int, error) {
	b, err := g.take(width)
	if err != nil {
		return 0, err
	}
	var wide [4]byte
	copy(wide[4-width:], b)
	n := binary.BigEndian.Uint32(wide[:])
	if uint64(n) > uint64(len(g.rest)) {
		return 0, errLength
	}
	return int(n), nil
}

func (g *guard) items(n, depth int) error {
	if depth == 0 {
		return errDeep
	}
	if n > len(g.rest) {
		return errLength
	}
	for range n {
		if err := g.value(depth - 1); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) text(n int) error {
	b, err := g.take(n)
	if err == nil && !utf8.Valid(b) {
		return errUTF8
	}
	return err
}

func (g *guard) skip(n int) error {
	_, err := g.take(n)
	return err
}

func (g *guard) take(n int) ([]byte, error) {
	if n > len(g.rest) {
		return nil, errShort
	}
	b := g.rest[:n]
	g.rest = g.rest[n:]
	return b, nil
}
