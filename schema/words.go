package schema

import (
	"fmt"
	"slices"
)

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
	switch {
	case c.err != nil:
	case len(values) == 0:
		c.keep(fmt.Errorf("no word for %d rows", n))
	case !c.writing:
		getWords(c, values, n, at)
	case len(values) > 1:
		for _, k := range index {
			c.put(uint64(k))
		}
	}
}

func getWords[T any](c *columns, values []T, n int, at func(i int) *T) {
	for i := range n {
		k := 0
		if len(values) > 1 {
			k = int(c.getAtMost(uint64(len(values) - 1)))
		}
		*at(i) = values[k]
	}
}

// fewWords is how many words are searched one by one before a map is asked.
const fewWords = 8

// wordList gives the different values in the order of their first rows, and each row's index.
func wordList[T comparable](n int, at func(i int) *T) (values []T, index []uint32) {
	index = make([]uint32, n)
	seen := map[T]int{}
	for i := range n {
		v := *at(i)
		k := slices.Index(values[:min(len(values), fewWords)], v)
		if k < 0 {
			known, ok := seen[v]
			if !ok {
				known = len(values)
				seen[v] = known
				values = append(values, v)
			}
			k = known
		}
		index[i] = uint32(k)
	}
	return values, index
}

// labels walks a short name of n rows, of lower case letters; the empty one is none.
func labels[T checkable](c *columns, n, most int, at func(i int) *T) {
	words(c, n, 1, at, func(n int, at func(i int) *T) {
		texts(c, n, most, at)
		for i := range n {
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
		for i := range n {
			c.keep(at(i).checkWords())
		}
	})
}
