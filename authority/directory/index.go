package directory

// index finds records by a hash of what they hold: open addressing without pointers, so that the
// garbage collector passes it by. Several records may stand under one hash; who asks compares.
type index struct {
	places []place
	used   int
}

// place is one entry; record 0 is none.
type place struct{ hash, record uint32 }

// home is where the entries of hash begin. Any length of the table will do.
func (x *index) home(hash uint32) int { return int(uint64(hash) * uint64(len(x.places)) >> 32) }

// seek gives the first entry of hash from place at on: its place and its record, or record 0.
//
//	for at, i := x.seek(h, x.home(h)); i != 0; at, i = x.seek(h, at+1) { ... }
func (x *index) seek(hash uint32, at int) (int, uint32) {
	if x.used == 0 {
		return 0, 0
	}
	for {
		if at == len(x.places) {
			at = 0
		}
		p := x.places[at]
		if p.record == 0 || p.hash == hash {
			return at, p.record
		}
		at++
	}
}

// insert grows the table by half where it is three quarters full.
func (x *index) insert(hash, record uint32) {
	if 4*(x.used+1) > 3*len(x.places) {
		old := x.places
		x.places = make([]place, len(old)+len(old)/2+8)
		for _, p := range old {
			if p.record != 0 {
				x.put(p)
			}
		}
	}
	x.put(place{hash, record})
	x.used++
}

func (x *index) put(p place) {
	at := x.home(p.hash)
	for x.places[at].record != 0 {
		if at++; at == len(x.places) {
			at = 0
		}
	}
	x.places[at] = p
}

// exchange puts record where old stands.
func (x *index) exchange(hash, old, record uint32) { x.places[x.find(hash, old)].record = record }

// remove takes a record out and closes the gap, so that no search ends early.
func (x *index) remove(hash, record uint32) {
	gap := x.find(hash, record)
	n := len(x.places)
	for at := (gap + 1) % n; x.places[at].record != 0; at = (at + 1) % n {
		home := x.home(x.places[at].hash)
		between := gap < home && home <= at
		if at < gap {
			between = gap < home || home <= at
		}
		if !between {
			x.places[gap] = x.places[at]
			gap = at
		}
	}
	x.places[gap] = place{}
	x.used--
}

// find gives the place of a record that is in.
func (x *index) find(hash, record uint32) int {
	for at, i := x.seek(hash, x.home(hash)); i != 0; at, i = x.seek(hash, at+1) {
		if i == record {
			return at
		}
	}
	panic("directory: a record is not in its index")
}
