package schema

import "fmt"

// words walks a field of n rows that has few different values: the values, as list walks them,
// then, where there is more than one, the index of each row's. A value takes at least width bytes.
func words[T comparable](c *columns, n, width int, at func(i int) *T, list func(n int, at func(i int) *T)) {
	if n == 0 || c.err != nil {
		return
	}
	var values []T
	var index []uint32
	if c.writing {
		values, index = wordList(n, at)
	}
	rows(c, &values, n, width)
	list(len(values), func(i int) *T { return &values[i] })
	if c.err == nil && len(values) == 0 {
		c.keep(fmt.Errorf("no word for %d rows", n))
	}
	for i := 0; i < n && c.err == nil; i++ {
		var k uint64
		if len(values) > 1 {
			k = c.wordIndex(index, i)
		}
		switch {
		case k >= uint64(len(values)):
			c.keep(fmt.Errorf("word %d of %d", k, len(values)))
		case !c.writing:
			*at(i) = values[k]
		}
	}
}

func (c *columns) wordIndex(index []uint32, i int) uint64 {
	if c.writing {
		return c.uvarint(uint64(index[i]))
	}
	return c.uvarint(0)
}

// wordList gives the different values in the order of their first rows, and each row's index.
func wordList[T comparable](n int, at func(i int) *T) (values []T, index []uint32) {
	index = make([]uint32, n)
	seen := map[T]uint32{}
	for i := range n {
		v := *at(i)
		if i > 0 && v == values[index[i-1]] {
			index[i] = index[i-1]
			continue
		}
		k, ok := seen[v]
		if !ok {
			k = uint32(len(values))
			seen[v] = k
			values = append(values, v)
		}
		index[i] = k
	}
	return values, index
}

// labels walks a short name of n rows, of lower case letters; the empty one is none.
func labels[T checkable](c *columns, n, most int, at func(i int) *T) {
	words(c, n, 1, at, func(n int, at func(i int) *T) {
		texts(c, n, most, at)
		for i := 0; i < n && c.err == nil; i++ {
			if w := *at(i); w != "" {
				c.keep(w.Check())
			}
		}
	})
}

// processes walks a process a row; the zero one is nobody.
func (c *columns) processes(n int, at func(i int) *Process) {
	words(c, n, 2, at, func(n int, at func(i int) *Process) {
		texts(c, n, MaxNode, func(i int) *NodeID { return &at(i).Node })
		texts(c, n, bootLen, func(i int) *BootID { return &at(i).Boot })
		for i := 0; i < n && c.err == nil; i++ {
			c.keep(at(i).checkWords())
		}
	})
}
