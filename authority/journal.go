package authority

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	// maxUnstored bounds the entries of a journal: about 40 MB of events, a minute of a thousand a
	// second. What does not fit is lost to the stream, and told as that.
	maxUnstored = 1 << 16
	// maxFlying bounds those that are on their way at a time. A stream takes 10,000 from all of its
	// writers together before it refuses some.
	maxFlying = 2048
	// ackWait is when an acknowledgement is given up: a stream that can write gives it in milliseconds.
	ackWait = 2 * time.Second
	// repeatFor is how long an entry is repeated. It is half of the time in which a stream knows one
	// again that it has already, by its id.
	repeatFor = time.Minute
	// firstPause and lastPause are the waits between tries while the stream takes nothing.
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// entry is a message on its way into a stream.
type entry struct {
	// static
	subject string
	id      string // by which the stream knows a repeated one again
	body    []byte
	slot    schema.Slot
	stamp   schema.Stamp

	// owned by the journal
	number uint64 // names it in acknowledgements, whichever try they answer
	since  time.Time
	sent   time.Time // the latest try
	tries  int
	flying bool   // on its way
	done   bool   // stored, or given up
	next   *entry // of the same subject; its turn comes when this one is done
}

// journal decides what of a stream's messages is sent when. It is pure.
//
//	add --> waits for the one before of its subject --> ready --> flying --> done
//	                                                      ^          |
//	                                                      '----------' refused, or no answer in ackWait
//
// So a subject's messages are stored in their order, whatever is lost on the way, since none is on
// its way before the one before it is stored or given up. When one is refused or has no answer, the
// journal is stalled: all that is on its way counts as not sent, and one at a time is tried until the
// stream takes one. Answers to earlier tries count whenever they come.
type journal struct {
	numbers  uint64
	open     map[uint64]*entry // those that are not done
	last     map[string]*entry // by subject: the last one that is not done
	line     []*entry          // the oldest first, with some that are done
	ready    []*entry          // whose turn it is, the same
	flying   []*entry          // by the time of their try, the same
	inFlight int
	stalled  bool
	again    time.Time // when stalled: the next try
	pause    time.Duration
}

func newJournal() journal { return journal{open: map[uint64]*entry{}, last: map[string]*entry{}} }

// add takes an entry; false where there is no room. flies says that it is on its way from now on: the
// caller sends it.
func (j *journal) add(now time.Time, e *entry) (flies, ok bool) {
	if len(j.open) >= maxUnstored {
		return false, false
	}
	j.numbers++
	e.number, e.since = j.numbers, now
	j.open[e.number] = e
	j.line = append(j.compact(j.line), e)
	before := j.last[e.subject]
	j.last[e.subject] = e
	switch {
	case before != nil:
		before.next = e
	case j.stalled || j.inFlight >= maxFlying || len(j.ready) > 0:
		j.ready = append(j.ready, e)
	default:
		j.fly(now, e)
		return true, true
	}
	return false, true
}

// compact keeps a list from growing by entries that are done, behind one that is not.
func (j *journal) compact(list []*entry) []*entry {
	if len(list) < 2*len(j.open)+1024 {
		return list
	}
	return slices.DeleteFunc(list, func(e *entry) bool { return e.done })
}

// due gives what is to be sent now.
func (j *journal) due(now time.Time) (out []*entry) {
	j.giveUpWaiting(now)
	room := maxFlying
	if j.stalled {
		if now.Before(j.again) {
			return nil
		}
		room = 1
	}
	for j.inFlight < room {
		e := j.pop()
		if e == nil {
			break
		}
		j.fly(now, e)
		out = append(out, e)
	}
	return out
}

func (j *journal) pop() *entry {
	for len(j.ready) > 0 {
		e := j.ready[0]
		j.ready[0] = nil
		if j.ready = j.ready[1:]; !e.done {
			return e
		}
	}
	j.ready = nil
	return nil
}

func (j *journal) fly(now time.Time, e *entry) {
	e.flying, e.sent = true, now
	e.tries++
	j.inFlight++
	j.flying = append(j.compact(j.flying), e)
}

// giveUpWaiting stalls when the oldest try has had no answer for too long.
func (j *journal) giveUpWaiting(now time.Time) {
	for len(j.flying) > 0 {
		e := j.flying[0]
		if !e.done && e.flying {
			if now.Sub(e.sent) >= ackWait {
				j.stall(now)
			}
			return
		}
		j.flying[0] = nil
		j.flying = j.flying[1:]
	}
	j.flying = nil
}

// stall takes back all that is on its way.
func (j *journal) stall(now time.Time) {
	var back []*entry
	for _, e := range j.flying {
		if e.flying && !e.done {
			e.flying = false
			back = append(back, e)
		}
	}
	j.ready = append(back, j.ready...)
	j.flying, j.inFlight = nil, 0
	j.stalled = true
	j.pause = min(max(2*j.pause, firstPause), lastPause)
	j.again = now.Add(j.pause)
}

// stored takes that the stream has an entry; it gives it, or nil for one that was done before.
func (j *journal) stored(number uint64) *entry {
	e := j.open[number]
	if e != nil {
		j.finish(e)
		j.stalled, j.pause = false, 0
	}
	return e
}

// refused takes that the stream does not take an entry, or that it could not be sent. It goes behind
// the others: one that never will be taken does not hold them up.
func (j *journal) refused(now time.Time, number uint64) {
	e := j.open[number]
	if e == nil || !e.flying {
		return // an answer to a try before the stall
	}
	e.flying = false
	j.inFlight--
	j.stall(now)
	j.ready = append(j.ready, e)
}

// finish ends an entry, and it is the turn of the next one of its subject.
func (j *journal) finish(e *entry) {
	e.done = true
	delete(j.open, e.number)
	if j.last[e.subject] == e {
		delete(j.last, e.subject)
	}
	if e.flying {
		e.flying = false
		j.inFlight--
	}
	if e.next != nil {
		j.ready = append(j.ready, e.next)
		e.next = nil
	}
}

// expire gives up what has been tried for too long.
func (j *journal) expire(now time.Time) (lost []*entry) {
	for len(j.line) > 0 {
		e := j.line[0]
		if !e.done {
			if now.Sub(e.since) < repeatFor {
				return lost
			}
			j.finish(e)
			lost = append(lost, e)
		}
		j.line[0] = nil
		j.line = j.line[1:]
	}
	j.line = nil
	return lost
}

// unstored counts the entries that are neither stored nor given up.
func (j *journal) unstored() int { return len(j.open) }
