package swarm_test

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// succession is who has answered for which slot, and when the bucket, which tells whose it is, was lost.
type succession struct {
	first  map[schema.Slot]map[schema.Revision]moment // the first answer under each fence
	losses []time.Duration
}

func newSuccession() succession {
	return succession{first: map[schema.Slot]map[schema.Revision]moment{}}
}

// answered notes that the owner of a slot has answered.
func (s *succession) answered(e *event, t schema.Target) {
	if s.first[t.Slot] == nil {
		s.first[t.Slot] = map[schema.Revision]moment{}
	}
	if _, known := s.first[t.Slot][t.Fence]; !known {
		s.first[t.Slot][t.Fence] = e.moment
	}
}

// hear takes what an answer tells of that.
func (s *succession) hear(e *event) {
	ok := func(h schema.AnswerHead) {
		if h.Code == schema.CodeOK {
			s.answered(e, h.Target)
		}
	}
	switch m := e.msg.(type) {
	case *schema.RegisterAnswer:
		ok(m.Head)
	case *schema.CommitAnswer:
		ok(m.Head)
	case *schema.UnregisterAnswer:
		ok(m.Head)
	case *schema.TouchAnswer:
		ok(m.Head)
	case *schema.SyncAnswer:
		ok(m.Head)
	case *schema.LookupAnswer:
		for i := range m.Groups {
			if m.Groups[i].Code == schema.CodeOK {
				s.answered(e, m.Groups[i].Target)
			}
		}
	}
}

// succeeded gives the fence of an owner who had answered for a slot before a time, and come after the one
// told; 0 where there was none.
func (s *succession) succeeded(t schema.Target, at time.Duration) (by schema.Revision) {
	for fence, first := range s.first[t.Slot] {
		if fence > t.Fence && first.at < at {
			by = max(by, fence)
		}
	}
	return by
}

// unclear reports whether the bucket was lost so shortly before a time that its slots' owners may not all
// have heard of it.
func (s *succession) unclear(at, lease time.Duration) bool {
	return slices.ContainsFunc(s.losses, func(lost time.Duration) bool { return lost <= at && at < lost+lease })
}

// exile is that a directory has put a session out without its gateway's word.
type exile struct {
	fence schema.Revision
	seq   int           // by the answer that tells
	until time.Duration // it is remembered at the least
}

// retried bounds how much earlier than the request that was answered the one came that was served.
const retried = 5 * time.Second

// putOut notes what a commit or a sync was told of whom it has put out. A session whose route may have
// expired before is passed over, and so is what is told again.
func (k *known) putOut(e *event, l *login, fence schema.Revision) {
	told := slices.ContainsFunc(l.exiles, func(x exile) bool { return x.fence == fence })
	if !told && l.stood < e.seq && l.alive+k.ttl > e.at {
		l.exiles = append(l.exiles, exile{fence, e.seq, e.request.at + k.ttl - retried})
	}
}

// exiled reports whether a directory asked at one moment, and answering at another, must know that it has
// put a session out.
func (l *login) exiled(t schema.Target, asked, answered moment) bool {
	return slices.ContainsFunc(l.exiles, func(x exile) bool {
		return x.fence == t.Fence && x.seq < asked.seq && answered.at < x.until
	})
}
