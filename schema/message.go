package schema

import (
	"fmt"
	"math"
)

// Message is one of the messages of this package: an array whose first element is the kind and
// whose second is the version of its form.
type Message interface {
	Kind() Kind
	// fields walks what stands behind kind and version.
	fields(c *coder)
}

// version of the messages' form. Fields are only ever added behind the others, so that processes
// of two versions run side by side.
const version = 1

// smallMessage has room for most messages without a list, in bytes.
const smallMessage = 256

// Marshal gives a message's bytes and leaves m as it is. The error is a bug of the caller: a field
// beyond its limit.
func Marshal(m Message) ([]byte, error) {
	c := &coder{writing: true, out: make([]byte, 0, smallMessage)}
	walkMessage(c, m)
	if c.err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Kind(), c.err)
	}
	return c.out, nil
}

// Unmarshal reads a message of m's kind from untrusted bytes into m, which is zero before; it
// returns ErrMalformed otherwise. Nothing in m shares memory with b, but strings that came in
// columns share one copy of them: clone the few that are kept for long.
func Unmarshal(b []byte, m Message) error {
	if err := Guard(b, maxDepth); err != nil {
		return fmt.Errorf("decode %s: %w", m.Kind(), err)
	}
	c := &coder{in: b, count: 1}
	walkMessage(c, m)
	if c.err != nil {
		return fmt.Errorf("decode %s: %w", m.Kind(), c.err)
	}
	return nil
}

func walkMessage(c *coder, m Message) {
	c.array("message", func() {
		kind, form := m.Kind(), uint64(version)
		number(c, "kind", &kind)
		c.uint("version", &form, math.MaxUint64)
		if kind != m.Kind() {
			c.fail("kind %s where %s is needed", kind, m.Kind())
		}
		if form < version {
			c.fail("version %d is none", form)
		}
		m.fields(c)
	})
}

// KindOf reads the kind of a message, without the rest.
func KindOf(b []byte) (Kind, error) {
	if err := Guard(b, maxDepth); err != nil {
		return 0, err
	}
	c := &coder{in: b, count: 1}
	var kind Kind
	c.array("message", func() { number(c, "kind", &kind) })
	return kind, c.err
}

// UnmarshalAny reads a message of whatever kind its bytes say, for tools that show it.
func UnmarshalAny(b []byte) (Message, error) {
	kind, err := KindOf(b)
	if err != nil {
		return nil, err
	}
	entry, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("%w: %s is unknown to this version", ErrMalformed, kind)
	}
	m := entry.make()
	return m, Unmarshal(b, m)
}
