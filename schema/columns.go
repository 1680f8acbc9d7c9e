package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// columns is the column form of many rows: each field of all rows, then the next field of all
// rows. Numbers are varints; strings are their lengths, then their bytes; words that repeat are a
// list, then an index a row. Like coder it writes or reads by one description.
type columns struct {
	writing bool
	out     []byte
	in      []byte
	text    string // all of in, once as a string: what is read shares it
	err     error
}

var (
	errCut   = errors.New("cut off")
	errRange = errors.New("number above its limit")
	errTotal = errors.New("counts do not add up")
)

// rows walks the number of rows and makes room for them. Every row takes at least one byte, so
// what is allocated is bounded by the bytes that came.
func rows[T any](c *columns, s *[]T, most int) {
	n := uint64(len(*s))
	c.varint(&n)
	if c.writing || c.err != nil {
		return
	}
	switch {
	case n > uint64(most):
		c.err = fmt.Errorf("%d rows where at most %d are allowed", n, most)
	case n > uint64(len(c.in)):
		c.err = fmt.Errorf("%d rows in %d bytes", n, len(c.in))
	default:
		*s = make([]T, n)
	}
}

func (c *columns) varint(v *uint64) {
	if c.writing {
		c.out = binary.AppendUvarint(c.out, *v)
		return
	}
	if c.err != nil {
		return
	}
	n, size := binary.Uvarint(c.in)
	if size <= 0 {
		c.err = errCut
		return
	}
	*v = n
	c.in = c.in[size:]
}

// numbers walks one unsigned field of n rows.
func numbers[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *columns, n int, at func(i int) *T) {
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		v := uint64(*p)
		c.varint(&v)
		if v > uint64(^T(0)) {
			c.err = errRange
		}
		*p = T(v)
	}
}

// deltas walks one number of n rows as the signed distance to the row before: short where rows
// are close together, in whatever order.
func deltas[T ~uint64](c *columns, n int, at func(i int) *T) {
	var last uint64
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		step := int64(uint64(*p) - last)
		zig := uint64(step<<1) ^ uint64(step>>63)
		c.varint(&zig)
		last += zig>>1 ^ -(zig & 1)
		*p = T(last)
	}
}

// durations walks one duration of n rows, in units of unit, never below 0.
func durations(c *columns, n int, unit time.Duration, at func(i int) *time.Duration) {
	for i := 0; i < n && c.err == nil; i++ {
		p := at(i)
		v := uint64(max(0, *p) / unit)
		c.varint(&v)
		if v > math.MaxInt64/uint64(unit) {
			c.err = errRange
			return
		}
		*p = time.Duration(v) * unit
	}
}

// texts walks one string of n rows, each of at most most bytes: all lengths, then all bytes.
func texts[T ~string](c *columns, n, most int, at func(i int) *T) {
	if c.writing {
		for i := range n {
			c.out = binary.AppendUvarint(c.out, uint64(len(*at(i))))
		}
		for i := range n {
			c.out = append(c.out, *at(i)...)
		}
		return
	}
	lengths := c.in
	for range n {
		var size uint64
		if c.varint(&size); size > uint64(most) && c.err == nil {
			c.err = fmt.Errorf("string of %d bytes where at most %d are allowed", size, most)
		}
		if c.err != nil {
			return
		}
	}
	for i := range n {
		size, width := binary.Uvarint(lengths)
		lengths = lengths[width:]
		*at(i) = T(c.take(int(size)))
	}
}

func (c *columns) take(n int) string {
	if c.err != nil || n > len(c.in) {
		c.err = errCut
		return ""
	}
	from := len(c.text) - len(c.in)
	c.in = c.in[n:]
	s := c.text[from : from+n]
	if !utf8.ValidString(s) {
		c.err = errUTF8
	}
	return s
}

// words walks one string of n rows that has few different values: the values, then an index a row.
func words[T ~string](c *columns, n, most int, at func(i int) *T) {
	if n == 0 {
		return
	}
	var list []T
	var index []uint32
	if c.writing {
		list, index = wordList(n, at)
	}
	rows(c, &list, n)
	texts(c, len(list), most, func(i int) *T { return &list[i] })
	if !c.writing {
		index = make([]uint32, n)
	}
	numbers(c, n, func(i int) *uint32 { return &index[i] })
	for i := 0; i < n && c.err == nil && !c.writing; i++ {
		if int64(index[i]) >= int64(len(list)) {
			c.err = fmt.Errorf("word %d of %d", index[i], len(list))
			return
		}
		*at(i) = list[index[i]]
	}
}

func wordList[T ~string](n int, at func(i int) *T) (list []T, index []uint32) {
	index = make([]uint32, n)
	seen := map[T]uint32{}
	for i := range n {
		w := *at(i)
		if i > 0 && w == *at(i - 1) {
			index[i] = index[i-1]
			continue
		}
		k, ok := seen[w]
		if !ok {
			k = uint32(len(list))
			seen[w] = k
			list = append(list, w)
		}
		index[i] = k
	}
	return list, index
}
