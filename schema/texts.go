package schema

import (
	"fmt"
	"unicode/utf8"
)

// texts walks one string of n rows, each of at most most bytes.
func texts[T ~string](c *columns, n, most int, at func(i int) *T) {
	if c.writing {
		putTexts(c, n, most, at)
		return
	}
	lengths := *c // reads them again, beside the strings
	total := 0
	for range n {
		total += int(c.getAtMost(uint64(most)))
	}
	if total > c.left() {
		c.keep(errCut)
	}
	if c.err != nil {
		return
	}
	block := c.in[c.pos : c.pos+total]
	c.pos += total
	if !utf8.ValidString(block) {
		c.keep(errUTF8)
		return
	}
	for i := range n {
		size := lengths.get()
		if len(block) > 0 && !utf8.RuneStart(block[0]) {
			c.keep(errUTF8) // valid as a whole, but cut within a rune
			return
		}
		*at(i) = T(block[:size])
		block = block[size:]
	}
}

func putTexts[T ~string](c *columns, n, most int, at func(i int) *T) {
	for i := range n {
		size := len(*at(i))
		if size > most {
			c.keep(fmt.Errorf("string of %d bytes where at most %d are allowed", size, most))
		}
		c.put(uint64(size))
	}
	for i := range n {
		s := string(*at(i))
		if !utf8.ValidString(s) {
			c.keep(errUTF8)
		}
		c.out = append(c.out, s...)
	}
}

// uids walks the uid of n rows.
func (c *columns) uids(n int, at func(i int) *UID) {
	texts(c, n, MaxUID, at)
	for i := range n {
		if c.err != nil {
			return
		}
		c.keep(at(i).checkShape())
	}
}
