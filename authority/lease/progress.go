package lease

import "github.com/rollcall-mesh/rollcall/schema"

// progress tells up to which revision everything has been heard. The bucket's revisions follow
// each other without gaps, so a notice that does not follow the last one tells of a lost one. Each
// is given out once, until a log loses its tail: from then on nothing is known but what is read anew.
type progress struct {
	head schema.Revision // all changes up to here have been heard; 0 = nothing is known
	from schema.Revision // the latest notices without a gap between them are from..to
	to   schema.Revision

	// A reading ended below what was heard before, which was up to here: 0 = none did. The log has lost its
	// tail, or the one who was asked leads it no more. A revision in between tells: it is given out again.
	fallen schema.Revision
}

// notice takes the revision of a notice. It reports whether that is given out a second time.
func (p *progress) notice(rev schema.Revision) (again bool) {
	switch {
	case rev <= p.to || p.head < rev && rev <= p.fallen:
		again = true
		*p = progress{from: rev, to: rev}
	case p.to != 0 && rev == p.to+1:
		p.to = rev
	default:
		p.from, p.to = rev, rev
	}
	p.join()
	return again
}

// snapshot takes that everything up to rev has been read, in a reading that began when all up to
// after was heard. It reports whether the log seems to end below that.
func (p *progress) snapshot(rev, after schema.Revision) (fell bool) {
	switch {
	case p.head < after: // the log fell while it was read, so this may be from before: another reading follows
		return false
	case rev < after:
		fell = true
		*p = progress{head: rev, fallen: after}
	}
	p.head = max(p.head, rev)
	p.join()
	return fell
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
