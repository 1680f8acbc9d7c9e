package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// columns is the column form of many rows: each field of all rows, then the next field of all
// rows. Like coder it writes or reads by one description, and writing changes nothing in a row. A
// number is a varint in its shortest form; strings are all their lengths, then all their bytes.
type columns struct {
	writing bool
	out     []byte
	in      string // reading: one copy of the bytes, which all strings read share
	pos     int    // reading: what of in is read; all of it after an error
	err     error  // the first
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
		from := len(appendLength(col.out[:mark], msgpcode.Bin8, n))
		c.out = append(col.out[:from], col.out[mark+head:]...)
	} else {
		col.in = string(c.readBin(what))
		walk(&col)
		if rest := col.left(); rest > 0 {
			col.keep(fmt.Errorf("%d bytes after the last column", rest))
		}
	}
	if col.err != nil {
		c.fail("%s: %w", what, col.err)
	}
}

func (c *columns) keep(err error) {
	if c.err == nil && err != nil {
		c.err = err
		c.pos = len(c.in)
	}
}

// left is how many bytes are left to be read.
func (c *columns) left() int { return len(c.in) - c.pos }

// put writes a number.
func (c *columns) put(v uint64) { c.out = binary.AppendUvarint(c.out, v) }

// get reads a number; 0 after an error.
func (c *columns) get() uint64 {
	if c.pos < len(c.in) && c.in[c.pos] < 0x80 {
		c.pos++
		return uint64(c.in[c.pos-1])
	}
	return c.getLong()
}

// getLong reads a number of several bytes, seven bits each, the lowest first.
func (c *columns) getLong() (v uint64) {
	for i, b := range []byte(c.in[c.pos:min(len(c.in), c.pos+binary.MaxVarintLen64)]) {
		switch {
		case i == binary.MaxVarintLen64-1 && b > 1:
			c.keep(errRange)
			return 0
		case b == 0 && i > 0:
			c.keep(errLong)
			return 0
		case b < 0x80:
			c.pos += i + 1
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	c.keep(errCut)
	return 0
}

// getAtMost reads a number up to most.
func (c *columns) getAtMost(most uint64) uint64 {
	v := c.get()
	if v > most {
		c.keep(errRange)
		return 0
	}
	return v
}

// rows walks the number of rows and makes room for them. Each row takes at least width bytes, so
// that what is allocated is bounded by what came.
func rows[T any](c *columns, s *[]T, most, width int) {
	n := uint64(len(*s))
	if !c.writing {
		n = c.get()
	}
	switch {
	case n > uint64(most):
		c.keep(fmt.Errorf("%d rows where at most %d are allowed", n, most))
	case c.writing:
		c.out = slices.Grow(c.out, int(n)*width*3)
		c.put(n)
	case n > uint64(c.left()/width):
		c.keep(fmt.Errorf("%d rows in %d bytes", n, c.left()))
	default:
		*s = room[T](int(n))
	}
}

// numbers walks one unsigned field of n rows.
func numbers[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *columns, n int, at func(i int) *T) {
	for i := range n {
		if c.writing {
			c.put(uint64(*at(i)))
		} else {
			*at(i) = T(c.getAtMost(uint64(^T(0))))
		}
	}
}

// enums walks one field of n rows that is of a closed set which ends before end. One of a newer
// process reads as other.
func enums[T ~uint8](c *columns, n int, end, other T, at func(i int) *T) {
	numbers(c, n, at)
	for i := range n {
		p := at(i)
		switch {
		case *p < end:
		case c.writing:
			c.keep(errRange)
		default:
			*p = other
		}
	}
}

// zigzag makes small numbers of those that are close to 0 on either side.
func zigzag(step int64) uint64 { return uint64(step<<1) ^ uint64(step>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// deltas walks one number of n rows as the signed distance to the row before: short where rows
// are close together, in whatever order.
func deltas[T ~uint64](c *columns, n int, at func(i int) *T) {
	var last T
	for i := range n {
		p := at(i)
		if c.writing {
			c.put(zigzag(int64(*p - last)))
		} else {
			*p = last + T(unzigzag(c.get()))
		}
		last = *p
	}
}

// sessions walks one session of n rows: the indexes as deltas, then the generations.
func (c *columns) sessions(n int, at func(i int) *SessionNum) {
	var last int64
	for i := range n {
		p := at(i)
		if c.writing {
			index := int64(p.Index())
			c.put(zigzag(index - last))
			last = index
			continue
		}
		last += unzigzag(c.get())
		if last < 0 || last > math.MaxUint32 {
			c.keep(errRange)
			return
		}
		*p = SessionNum(last)
	}
	for i := range n {
		p := at(i)
		if c.writing {
			c.put(uint64(p.Generation()))
		} else {
			*p = NewSessionNum(p.Index(), uint32(c.getAtMost(math.MaxUint32)))
		}
	}
}

// durations walks one duration of n rows, in units of unit, never below 0.
func durations(c *columns, n int, unit time.Duration, at func(i int) *time.Duration) {
	most := math.MaxInt64 / uint64(unit)
	for i := range n {
		p := at(i)
		if c.writing {
			c.put(uint64(max(0, *p) / unit))
		} else {
			*p = time.Duration(c.getAtMost(most)) * unit
		}
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
