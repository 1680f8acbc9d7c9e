package authority

import (
	"cmp"
	"hash/fnv"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// claims tells whether me may take a slot that nobody has owned for a while: the first of the
// slot's ranking at once, the one at rank k after k seconds, in case those before it are dead or
// cannot write. All workers compute the same ranking, so that they rarely meet in a CAS.
func claims(me schema.NodeID, live []schema.Process, s schema.Slot, unowned time.Duration) bool {
	return unowned >= time.Duration(rank(me, live, s))*time.Second
}

// rank is the number of live workers that come before me in a slot's rendezvous ranking.
func rank(me schema.NodeID, live []schema.Process, s schema.Slot) (before int) {
	mine := weight(me, s)
	for _, p := range live {
		if n := p.Node; n != me && cmp.Or(cmp.Compare(weight(n, s), mine), cmp.Compare(n, me)) > 0 {
			before++
		}
	}
	return before
}

// weight is the node's hash for the slot. FNV alone leaves neighbouring slots alike, so its bits
// are mixed once more (the finaliser of MurmurHash3).
func weight(n schema.NodeID, s schema.Slot) uint64 {
	h := fnv.New64a()
	h.Write([]byte{byte(s >> 8), byte(s)})
	h.Write([]byte(n))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
