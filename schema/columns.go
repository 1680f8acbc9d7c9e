package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// columns is the column form of many rows: each field of all rows, then the next field of all
// rows. Like coder it writes or reads by one description. A number is a varint in its shortest
// form, strings are all their lengths and then all their bytes.
type columns struct {
	writing bool
	out     []byte
	in      string // reading: what is left of one copy of the bytes, which all strings read share
	err     error
}

var (
	errCut   = errors.New("cut off")
	errRange = errors.New("number above its limit")
	errLong  = errors.New("number not in its shortest form")
	errTotal = errors.New("counts do not add up")
)

// columns walks a bin whose inside is the column form of many rows.
func (c *coder) columns(what string, walk func(*columns)) {
	if !c.next(what) {
		return
	}
	col := columns{writing: c.writing}
	if c.writing {
		const head = 5 // of the longest bin
		mark := len(c.out)
		col.out = append(c.out, make([]byte, head)...)
		walk(&col)
		n := len(col.out) - mark - head
		from := len(appendLength(col.out[:mark], codeBin8, n))
		c.out = append(col.out[:from], col.out[mark+head:]...)
	} else {
		col.in = string(c.readBin(what))
		walk(&col)
		if col.err == nil && len(col.in) > 0 {
			col.keep(fmt.Errorf("%d bytes after the last column", len(col.in)))
		}
	}
	if col.err != nil {
		c.fail("%s: %w", what, col.err)
	}
}

func (c *columns) keep(err error) {
	if c.err == nil {
		c.err = err
	}
}

// rows walks the number of rows and makes room for them. Each row takes at least width bytes, so
// that what is allocated is bounded by what came.
func rows[T any](c *columns, s *[]T, most, width int) {
	n := c.uvarint(uint64(len(*s)))
	switch {
	case c.err != nil:
	case n > uint64(most):
		c.keep(fmt.Errorf("%d rows where at most %d are allowed", n, most))
	case c.writing:
		c.out = slices.Grow(c.out, int(n)*width*2)
	case n > uint64(len(c.in)/width):
		c.keep(fmt.Errorf("%d rows in %d bytes", n, len(c.in)))
	default:
		*s = room[T](int(n))
	}
}

// uvarint walks one number: it writes v and returns it, or returns what it reads.
func (c *columns) uvarint(v uint64) uint64 {
	if c.writing {
		c.out = binary.AppendUvarint(c.out, v)
		return v
	}
	if len(c.in) > 0 && c.in[0] < 0x80 && c.err == nil {
		v = uint64(c.in[0])
		c.in = c.in[1:]
		return v
	}
	return c.readLong()
}

// readLong reads a number of several bytes, seven bits each, the lowest first.
func (c *columns) readLong() (v uint64) {
	for i := 0; i < len(c.in) && c.err == nil; i++ {
		b := c.in[i]
		switch {
		case i == binary.MaxVarintLen64-1 && b > 1:
			c.keep(errRange)
		case b == 0:
			c.keep(errLong)
		case b < 0x80:
			c.in = c.in[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	c.keep(errCut)
	return 0
}

// numbers walks one unsigned field of n rows.
func numbers[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *columns, n int, at func(i int) *T) {
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		v := c.uvarint(uint64(*p))
		if v > uint64(^T(0)) {
			c.keep(errRange)
			return
		}
		if !c.writing {
			*p = T(v)
		}
	}
}

// enums walks one field of n rows that is of a closed set which ends before end. One of a newer
// process reads as other.
func enums[T ~uint8](c *columns, n int, end, other T, at func(i int) *T) {
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		v := c.uvarint(uint64(*p))
		switch {
		case c.writing && v >= uint64(end), v > math.MaxUint8:
			c.keep(errRange)
		case !c.writing:
			*p = known(T(v), end, other)
		}
	}
}

// deltas walks one number of n rows as the signed distance to the row before: short where rows
// are close together, in whatever order.
func deltas[T ~uint64](c *columns, n int, at func(i int) *T) {
	var last uint64
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		step := int64(uint64(*p) - last)
		zig := c.uvarint(uint64(step<<1) ^ uint64(step>>63))
		last += zig>>1 ^ -(zig & 1)
		if !c.writing {
			*p = T(last)
		}
	}
}

// sessions walks one session of n rows: the indexes as deltas, then the generations.
func (c *columns) sessions(n int, at func(i int) *SessionNum) {
	var last int64
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		step := int64(p.Index()) - last
		zig := c.uvarint(uint64(step<<1) ^ uint64(step>>63))
		last += int64(zig>>1) ^ -int64(zig&1)
		if last < 0 || last > math.MaxUint32 {
			c.keep(errRange)
			return
		}
		if !c.writing {
			*p = SessionNum(last)
		}
	}
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		generation := c.uvarint(uint64(p.Generation()))
		if generation > math.MaxUint32 {
			c.keep(errRange)
			return
		}
		if !c.writing {
			*p = NewSessionNum(p.Index(), uint32(generation))
		}
	}
}

// durations walks one duration of n rows, in units of unit, never below 0.
func durations(c *columns, n int, unit time.Duration, at func(i int) *time.Duration) {
	most := math.MaxInt64 / uint64(unit)
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		v := c.uvarint(uint64(max(0, *p) / unit))
		if v > most {
			c.keep(errRange)
			return
		}
		if !c.writing {
			*p = time.Duration(v) * unit
		}
	}
}

// texts walks one string of n rows, each of at most most bytes.
func texts[T ~string](c *columns, n, most int, at func(i int) *T) {
	lengths := *c // reads the lengths again, beside their strings
	for i := 0; i < n && c.err == nil; i++ {
		if size := c.uvarint(uint64(len(*at(i)))); size > uint64(most) {
			c.keep(fmt.Errorf("string of %d bytes where at most %d are allowed", size, most))
		}
	}
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		if c.writing {
			c.out = append(c.out, *p...)
		} else {
			*p = T(c.take(lengths.uvarint(0)))
		}
		if !utf8.ValidString(string(*p)) {
			c.keep(errUTF8)
		}
	}
}

func (c *columns) take(n uint64) string {
	if n > uint64(len(c.in)) {
		c.keep(errCut)
		return ""
	}
	s := c.in[:n]
	c.in = c.in[n:]
	return s
}

// uids walks the uid of n rows.
func (c *columns) uids(n int, at func(i int) *UID) {
	texts(c, n, MaxUID, at)
	for i := 0; i < n && c.err == nil; i++ {
		c.keep(at(i).Check())
	}
}

// sum refuses counts that do not add up to what they count.
func (c *columns) sum(want, n int, at func(i int) uint32) {
	var sum uint64
	for i := range n {
		sum += uint64(at(i))
	}
	if sum != uint64(want) {
		c.keep(errTotal)
	}
}
