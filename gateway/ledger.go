package gateway

import (
	"sync"

	"github.com/rollcall-mesh/rollcall/schema"
)

// ledger draws the owner seqs of one boot and knows which of their operations are still open:
//
//	seq      1  2  3  4  5  6  7      x closed: answered by the target it went to, overtaken by an
//	         x  x  x  o  x  o  x        answered later one of its session, or void
//	               |                  o open: may still be applied where it was sent
//	               settled mark = 3   the number below the lowest open one
//
// Requests carry the mark: an authority need not remember anything of what lies below it, and
// refuses it. So a seq that may still arrive somewhere must be open.
type ledger struct {
	mu     sync.Mutex
	last   schema.OwnerSeq // the last one drawn
	lowest schema.OwnerSeq // no seq below it is open
	open   map[schema.OwnerSeq]struct{}
}

func newLedger() *ledger {
	return &ledger{lowest: 1, open: make(map[schema.OwnerSeq]struct{})}
}

// draw gives the next seq, whose operation is open until it is closed.
func (l *ledger) draw() schema.OwnerSeq {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.open[l.last] = struct{}{}
	return l.last
}

// close ends the operations of seqs.
func (l *ledger) close(seqs ...schema.OwnerSeq) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, seq := range seqs {
		delete(l.open, seq)
	}
}

// settled gives the mark of the moment. Each seq is passed once in the life of the ledger.
func (l *ledger) settled() schema.OwnerSeq {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.lowest <= l.last {
		if _, open := l.open[l.lowest]; open {
			break
		}
		l.lowest++
	}
	return l.lowest - 1
}
