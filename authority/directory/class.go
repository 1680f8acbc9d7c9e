package directory

import (
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// class is what many routes have in common.
type class struct {
	flag     schema.Flag
	listener schema.Listener
	level    schema.Level
}

// classes interns them. A client may choose its flag, so a class that no record has is dropped.
type classes struct {
	list  []interned
	named map[class]uint32
	free  []uint32
}

type interned struct {
	class
	records int
}

// take gives the number of a route's class, for one record more.
func (c *classes) take(r *schema.Route) uint32 {
	k := class{r.Flag, r.Listener, r.Level}
	i, ok := c.named[k]
	if !ok {
		i = c.add(class{
			flag:     schema.Flag(strings.Clone(string(r.Flag))),
			listener: schema.Listener(strings.Clone(string(r.Listener))),
			level:    r.Level,
		})
	}
	c.list[i].records++
	return i
}

func (c *classes) add(k class) uint32 {
	if c.named == nil {
		c.named = map[class]uint32{}
	}
	i := uint32(len(c.list))
	if n := len(c.free); n > 0 {
		i, c.free = c.free[n-1], c.free[:n-1]
	} else {
		c.list = append(c.list, interned{})
	}
	c.list[i].class = k
	c.named[k] = i
	return i
}

// give takes back what take gave.
func (c *classes) give(i uint32) {
	if c.list[i].records--; c.list[i].records > 0 {
		return
	}
	delete(c.named, c.list[i].class)
	c.list[i] = interned{}
	c.free = append(c.free, i)
}
