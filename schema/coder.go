package schema

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// coder walks the fields of a message, writing them or reading them: one description of a message
// serves both ways. Writing changes nothing in the message. The first error sticks, and all later
// calls do nothing.
type coder struct {
	writing bool
	out     []byte // writing: what is written so far
	in      []byte // reading: what is left
	count   int    // of the open array: elements written so far, or still to be read
	err     error
}

func (c *coder) fail(format string, args ...any) {
	c.keep(fmt.Errorf(format, args...))
}

func (c *coder) keep(err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
}

// next goes to the next element of the open array; false when there is none, or after an error.
func (c *coder) next(what string) bool {
	switch {
	case c.err != nil:
		return false
	case c.writing:
		c.count++
	case c.count == 0:
		c.fail("%s is missing", what)
		return false
	default:
		c.count--
	}
	return true
}

// array walks an array with a field an element. A reader skips what a newer process has added
// behind them, and refuses an array that ends before them.
func (c *coder) array(what string, fields func()) {
	if !c.next(what) {
		return
	}
	outer := c.count
	if c.writing {
		c.writeArray(fields)
	} else {
		c.count = c.readArrayHead(what)
		fields()
		for ; c.err == nil && c.count > 0; c.count-- {
			c.skip()
		}
	}
	c.count = outer
}

// writeArray counts the fields while they are written, and then puts their number in front.
func (c *coder) writeArray(fields func()) {
	mark := len(c.out)
	c.out = append(c.out, msgpcode.FixedArrayLow)
	c.count = 0
	fields()
	if c.count > maxFixArray {
		c.fail("array of %d fields: split it, the head has room for %d", c.count, maxFixArray)
		return
	}
	c.out[mark] |= byte(c.count)
}

// list walks a slice of at most most items, each an array of its own.
func list[T any](c *coder, what string, s *[]T, most int, item func(*T)) {
	if !c.next(what) {
		return
	}
	outer := c.count
	n := len(*s)
	if !c.writing {
		n = c.readArrayHead(what)
	}
	c.atMost(what, n, most, "entries")
	switch {
	case c.err != nil:
		return
	case c.writing:
		c.out = appendArrayHead(c.out, n)
	default:
		*s = room[T](n)
	}
	c.count = n
	for i := range *s {
		item(&(*s)[i])
	}
	c.count = outer
}

// room makes a slice of n; of none it is nil, as in a message that was never on the wire.
func room[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

func (c *coder) atMost(what string, n, most int, unit string) {
	if n > most {
		c.fail("%s has %d %s where at most %d are allowed", what, n, unit, most)
	}
}

// uint walks a number from 0 to most.
func (c *coder) uint(what string, v *uint64, most uint64) {
	if !c.next(what) {
		return
	}
	n := *v
	if !c.writing {
		n = c.readUint(what)
	}
	switch {
	case n > most:
		c.fail("%s is %d where at most %d is allowed", what, n, most)
	case c.writing:
		c.out = appendUint(c.out, n)
	default:
		*v = n
	}
}

// number walks any unsigned type.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, what string, v *T) {
	n := uint64(*v)
	c.uint(what, &n, uint64(^T(0)))
	if !c.writing {
		*v = T(n)
	}
}

// enum walks one of a closed set that ends before end. One of a newer process reads as other.
func enum[T ~uint8](c *coder, what string, v *T, end, other T) {
	n := uint64(*v)
	most := uint64(math.MaxUint8)
	if c.writing {
		most = uint64(end) - 1
	}
	c.uint(what, &n, most)
	if !c.writing {
		*v = known(T(n), end, other)
	}
}

func known[T ~uint8](v, end, other T) T {
	if v < end {
		return v
	}
	return other
}

// millis walks a duration of at least 0, in milliseconds on the wire.
func (c *coder) millis(what string, d *time.Duration) {
	n := uint64(max(0, d.Milliseconds()))
	c.uint(what, &n, maxMillis)
	if !c.writing {
		*d = time.Duration(n) * time.Millisecond
	}
}

const maxMillis = math.MaxInt64 / uint64(time.Millisecond)

func (c *coder) bool(what string, v *bool) {
	switch {
	case !c.next(what):
	case c.writing:
		c.out = appendBool(c.out, *v)
	default:
		*v = c.readBool(what)
	}
}

// text walks a string of at most most bytes of valid UTF-8.
func text[T ~string](c *coder, what string, v *T, most int) {
	if !c.next(what) {
		return
	}
	if c.writing {
		c.atMost(what, len(*v), most, "bytes")
		if !utf8.ValidString(string(*v)) {
			c.fail("%s: %w", what, errUTF8)
		}
		c.out = appendText(c.out, string(*v))
		return
	}
	b := c.readText(what)
	c.atMost(what, len(b), most, "bytes")
	if c.err == nil {
		*v = T(b) // Guard has checked the UTF-8
	}
}

// uid walks the uid of a user, which is never empty.
func (c *coder) uid(what string, u *UID) {
	text(c, what, u, MaxUID)
	if c.err == nil {
		c.keep(u.Check())
	}
}

// checkable is an id that says itself what it may hold.
type checkable interface {
	~string
	Check() error
}

// checked walks an id that is empty or passes its own check.
func checked[T checkable](c *coder, what string, v *T, most int) {
	text(c, what, v, most)
	if c.err == nil && *v != "" {
		c.keep((*v).Check())
	}
}

// bytes walks a bin. What is read is a copy; an empty one reads as nil.
func (c *coder) bytes(what string, v *[]byte) {
	switch {
	case !c.next(what):
	case c.writing:
		c.out = append(appendLength(c.out, msgpcode.Bin8, len(*v)), *v...)
	default:
		*v = append([]byte(nil), c.readBin(what)...)
	}
}

// process walks both fields of a process in line; the zero one is nobody.
func (c *coder) process(what string, p *Process) {
	text(c, what, &p.Node, MaxNode)
	text(c, what, &p.Boot, bootLen)
	if c.err == nil {
		c.keep(p.checkWords())
	}
}

// target walks the four fields of a target in line.
func (c *coder) target(what string, t *Target) {
	slot := uint64(t.Slot)
	c.uint(what, &slot, Slots-1)
	if !c.writing {
		t.Slot = Slot(slot)
	}
	number(c, what, &t.Fence)
	c.process(what, &t.Authority)
}
