package schema

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// coder walks the fields of a message, writing them or reading them: one description of a message
// serves both ways. The first error sticks, and all later calls do nothing.
type coder struct {
	enc  *msgpack.Encoder // nil when reading
	dec  *msgpack.Decoder
	left int // reading: elements left in the open array
	err  error
}

func (c *coder) writing() bool { return c.enc != nil }

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

func (c *coder) keep(err error) {
	if c.err == nil && err != nil {
		c.err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
}

// array walks an array of n fields. A reader takes a longer one, whose unknown rest a newer
// process has added, and refuses a shorter one.
func (c *coder) array(n int, fields func()) {
	if c.err != nil {
		return
	}
	if c.writing() {
		c.keep(c.enc.EncodeArrayLen(n))
		fields()
		return
	}
	c.left--
	got := c.openArray()
	if c.err == nil && got < n {
		c.fail("array of %d elements where %d are needed", got, n)
	}
	outer := c.left
	c.left = got
	fields()
	for ; c.err == nil && c.left > 0; c.left-- {
		c.keep(c.dec.Skip())
	}
	c.left = outer
}

// list walks a slice of messages, each an array of its own; most bounds its length.
func list[T any](c *coder, what string, s *[]T, most int, item func(*T)) {
	if c.err != nil {
		return
	}
	n := len(*s)
	if c.writing() {
		c.keep(c.enc.EncodeArrayLen(n))
	} else {
		c.left--
		n = c.openArray()
	}
	if n > most {
		c.fail("%d %s where at most %d are allowed", n, what, most)
	}
	if c.err != nil {
		return
	}
	if !c.writing() {
		*s = make([]T, n)
	}
	outer := c.left
	for i := range *s {
		c.left = 1
		item(&(*s)[i])
	}
	c.left = outer
}

func (c *coder) openArray() int {
	code := c.peek()
	if c.err == nil && !msgpcode.IsFixedArray(code) && code != msgpcode.Array16 && code != msgpcode.Array32 {
		c.fail("%#x where an array is needed", code)
	}
	if c.err != nil {
		return 0
	}
	n, err := c.dec.DecodeArrayLen()
	c.keep(err)
	return n
}

func (c *coder) peek() byte {
	code, err := c.dec.PeekCode()
	c.keep(err)
	return code
}

// uint walks a number from 0 to most.
func (c *coder) uint(v *uint64, most uint64) {
	if c.err != nil {
		return
	}
	if c.writing() {
		c.keep(c.enc.EncodeUint(*v))
		return
	}
	c.left--
	*v = c.readUint()
	if c.err == nil && *v > most {
		c.fail("number %d above its limit %d", *v, most)
	}
}

// readUint refuses what the library would wrap or take for zero.
func (c *coder) readUint() uint64 {
	code := c.peek()
	if c.err != nil {
		return 0
	}
	switch {
	case code <= msgpcode.PosFixedNumHigh, code >= msgpcode.Uint8 && code <= msgpcode.Uint64:
		n, err := c.dec.DecodeUint64()
		c.keep(err)
		return n
	case code >= msgpcode.Int8 && code <= msgpcode.Int64:
		n, err := c.dec.DecodeInt64()
		c.keep(err)
		if n >= 0 {
			return uint64(n)
		}
	}
	c.fail("%#x where a number from 0 is needed", code)
	return 0
}

// number walks any unsigned type.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *coder, v *T) {
	n := uint64(*v)
	c.uint(&n, uint64(^T(0)))
	*v = T(n)
}

// millis walks a duration of at least 0, in milliseconds on the wire.
func (c *coder) millis(d *time.Duration) {
	n := uint64(max(0, d.Milliseconds()))
	c.uint(&n, maxMillis)
	*d = time.Duration(n) * time.Millisecond
}

const maxMillis = math.MaxInt64 / uint64(time.Millisecond)

func (c *coder) bool(v *bool) {
	if c.err != nil {
		return
	}
	if c.writing() {
		c.keep(c.enc.EncodeBool(*v))
		return
	}
	c.left--
	if code := c.peek(); c.err == nil && code != msgpcode.True && code != msgpcode.False {
		c.fail("%#x where a boolean is needed", code)
	}
	if c.err == nil {
		b, err := c.dec.DecodeBool()
		c.keep(err)
		*v = b
	}
}

// text walks a string of at most most bytes.
func text[T ~string](c *coder, what string, v *T, most int) {
	if c.err != nil {
		return
	}
	if len(*v) > most && c.writing() {
		c.fail("%s of %d bytes where at most %d are allowed", what, len(*v), most)
		return
	}
	if c.writing() {
		c.keep(c.enc.EncodeString(string(*v)))
		return
	}
	c.left--
	if code := c.peek(); c.err == nil && !msgpcode.IsString(code) {
		c.fail("%s is %#x where a string is needed", what, code)
	}
	if c.err != nil {
		return
	}
	s, err := c.dec.DecodeString()
	c.keep(err)
	if len(s) > most {
		c.fail("%s of %d bytes where at most %d are allowed", what, len(s), most)
	}
	*v = T(s)
}

// bytes walks a bin.
func (c *coder) bytes(what string, v *[]byte) {
	if c.err != nil {
		return
	}
	if c.writing() {
		c.keep(c.enc.EncodeBytes(nonNil(*v)))
		return
	}
	c.left--
	if code := c.peek(); c.err == nil && !msgpcode.IsBin(code) {
		c.fail("%s is %#x where bytes are needed", what, code)
	}
	if c.err == nil {
		b, err := c.dec.DecodeBytes()
		c.keep(err)
		*v = b
	}
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// columns walks a bin whose inside is the column form of many rows.
func (c *coder) columns(what string, walk func(*columns)) {
	if c.err != nil {
		return
	}
	var raw []byte
	if c.writing() {
		cols := columns{writing: true}
		walk(&cols)
		raw = cols.out
	}
	c.bytes(what, &raw)
	if c.err != nil || c.writing() {
		return
	}
	cols := columns{in: raw, text: string(raw)}
	walk(&cols)
	if cols.err == nil && len(cols.in) > 0 {
		cols.err = fmt.Errorf("%d bytes after the last column", len(cols.in))
	}
	if cols.err != nil {
		c.fail("%s: %s", what, cols.err)
	}
}

// process walks both fields of a process in line.
func (c *coder) process(p *Process) {
	text(c, "node", &p.Node, MaxNode)
	text(c, "boot", &p.Boot, bootLen)
}

// target walks the four fields of a target in line.
func (c *coder) target(t *Target) {
	number(c, &t.Slot)
	if t.Slot >= Slots {
		c.fail("slot %d of %d", t.Slot, Slots)
	}
	number(c, &t.Fence)
	c.process(&t.Authority)
}

// Message is one of the messages of this package: an array whose first element is the kind and
// whose second is the version of its form.
type Message interface {
	Kind() Kind
	// fields gives the number of fields after kind and version, and walks them.
	fields(c *coder) (n int, walk func())
}

// version of the messages' form. Fields are only ever added behind the others, so that processes
// of two versions run side by side.
const version = 1

// Marshal gives a message's bytes. The error is a bug of the caller: a field beyond its limit.
func Marshal(m Message) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	c := &coder{enc: enc}
	walkMessage(c, m)
	if c.err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Kind(), c.err)
	}
	return buf.Bytes(), nil
}

// Unmarshal reads a message of m's kind from untrusted bytes; it returns ErrMalformed otherwise.
// Strings and byte slices of m share no memory with b.
func Unmarshal(b []byte, m Message) error {
	if err := Guard(b, maxDepth); err != nil {
		return fmt.Errorf("decode %s: %w", m.Kind(), err)
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(b))
	c := &coder{dec: dec}
	walkMessage(c, m)
	if c.err != nil {
		return fmt.Errorf("decode %s: %w", m.Kind(), c.err)
	}
	return nil
}

func walkMessage(c *coder, m Message) {
	n, walk := m.fields(c)
	c.array(n+2, func() {
		kind, form := m.Kind(), uint64(version)
		number(c, &kind)
		c.uint(&form, math.MaxUint64)
		if kind != m.Kind() {
			c.fail("kind %s where %s is needed", kind, m.Kind())
		}
		if form < version {
			c.fail("version %d is none", form)
		}
		walk()
	})
}

// KindOf reads the kind of a message, without the rest.
func KindOf(b []byte) (Kind, error) {
	if err := Guard(b, maxDepth); err != nil {
		return 0, err
	}
	c := &coder{dec: msgpack.NewDecoder(bytes.NewReader(b))}
	var kind Kind
	c.array(1, func() { number(c, &kind) })
	return kind, c.err
}
