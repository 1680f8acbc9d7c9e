package lease

import "github.com/rollcall-mesh/rollcall/schema"

// progress tells up to which revision everything has been heard. The bucket's revisions follow
// each other without gaps, so a notice that does not follow the last one tells of a lost one.
type progress struct {
	head schema.Revision // all changes up to here have been heard
	from schema.Revision // the latest notices without a gap between them are from..to
	to   schema.Revision
}

// notice takes the revision of a notice.
func (p *progress) notice(rev schema.Revision) {
	switch {
	case p.to != 0 && rev == p.to+1:
		p.to = rev
	case rev > p.to:
		p.from, p.to = rev, rev
	}
	p.join()
}

// snapshot takes that everything up to rev has been read.
func (p *progress) snapshot(rev schema.Revision) {
	p.head = max(p.head, rev)
	p.join()
}

func (p *progress) join() {
	if p.head != 0 && p.from <= p.head+1 {
		p.head = max(p.head, p.to)
	}
}

// gap reports whether a notice was lost since the last snapshot.
func (p *progress) gap() bool { return p.head != 0 && p.to > p.head }

// restart forgets all: another bucket counts from elsewhere.
func (p *progress) restart() { *p = progress{} }
