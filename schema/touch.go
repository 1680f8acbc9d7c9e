package schema

import (
	"math"
	"time"
)

// Touch tells which sessions of a slot have shown life.
type Touch struct {
	Head     SlotHead
	Sessions []Touched // sorted by the index of the session, at most MaxTouched
}

// Touched is a session that has shown life.
type Touched struct {
	Session SessionNum
	Idle    time.Duration // since its last frame; in steps of TouchStep on the wire
}

// MaxTouched bounds the sessions of one touch.
const MaxTouched = 65536

// TouchStep is the resolution of the ages of a touch: the usual one, up to a flush of 10 s, is
// one byte.
const TouchStep = 100 * time.Millisecond

// Kind is KindTouch.
func (*Touch) Kind() Kind { return KindTouch }

func (m *Touch) fields(c *coder) {
	c.slotHead(&m.Head)
	c.columns("sessions", func(col *columns) {
		rows(col, &m.Sessions, MaxTouched, 2)
		col.touched(m.Sessions)
	})
}

// touched writes a session as the distance of its index to the one before, with a bit that says
// whether a generation follows that differs from the one before: about two bytes a session.
func (c *columns) touched(t []Touched) {
	var index, generation uint64
	for i := 0; i < len(t) && c.err == nil; i++ {
		num := t[i].Session
		step := (uint64(num.Index()) - index) << 1
		gen := uint64(num.Generation())
		if gen != generation {
			step |= 1
		}
		if c.writing {
			c.put(step)
		} else {
			step = c.get()
		}
		if step&1 == 1 {
			generation = gen
			if c.writing {
				c.put(gen)
			} else {
				generation = c.get()
			}
		}
		index += step >> 1
		if index > math.MaxUint32 || generation > math.MaxUint32 {
			c.keep(errRange) // a writer's: the sessions are not sorted
			return
		}
		if !c.writing {
			t[i].Session = NewSessionNum(uint32(index), uint32(generation))
		}
	}
	durations(c, len(t), TouchStep, func(i int) *time.Duration { return &t[i].Idle })
}

// TouchAnswer names the exceptions; all other sessions of the touch were renewed.
type TouchAnswer struct {
	Head       AnswerHead
	Exceptions []TouchException
}

// TouchException is a session that was not renewed: CodeUnknown (sync it) or CodeSuperseded
// (close it with Close).
type TouchException struct {
	Session SessionNum
	Code    Code
	Close   CloseCode
}

// Kind is KindTouchAnswer.
func (*TouchAnswer) Kind() Kind { return KindTouchAnswer }

func (m *TouchAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	c.columns("exceptions", func(col *columns) {
		e := &m.Exceptions
		rows(col, e, MaxTouched, 4)
		n := len(*e)
		col.sessions(n, func(i int) *SessionNum { return &(*e)[i].Session })
		col.codes(n, func(i int) *Code { return &(*e)[i].Code })
		numbers(col, n, func(i int) *CloseCode { return &(*e)[i].Close })
	})
}

// Sync tells a slot's new authority which active sessions a gateway has there, in chunks.
type Sync struct {
	Head   SlotHead
	Last   bool    // the gateway's last chunk: it is no longer outstanding
	Routes []Route // at most MaxSync; their owner is Head.From
}

// MaxSync bounds the routes of one chunk.
const MaxSync = 512

// Kind is KindSync.
func (*Sync) Kind() Kind { return KindSync }

func (m *Sync) fields(c *coder) {
	c.slotHead(&m.Head)
	c.bool("last", &m.Last)
	c.columns("routes", func(col *columns) {
		rows(col, &m.Routes, MaxSync, routeWidth+2)
		col.uids(len(m.Routes), func(i int) *UID { return &m.Routes[i].UID })
		col.routes(m.Routes)
		for i := 0; i < len(m.Routes) && !c.writing; i++ {
			m.Routes[i].Owner = m.Head.From
		}
	})
}

// SyncAnswer gives a verdict for each route of the chunk, in order, and the losers whose winner
// is in the chunk: its gateway kicks them without waiting.
type SyncAnswer struct {
	Head     AnswerHead
	Verdicts []SyncVerdict
	Losers   []Loser
}

// SyncVerdict is CodeOK (kept), CodeOldSeq, CodeRetry or CodeSuperseded (close it with Close).
type SyncVerdict struct {
	Code  Code
	Close CloseCode
}

// Loser is a route that lost to one of the chunk.
type Loser struct {
	UID     UID
	Owner   Process
	Session SessionNum
	Close   CloseCode
}

// Kind is KindSyncAnswer.
func (*SyncAnswer) Kind() Kind { return KindSyncAnswer }

func (m *SyncAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	c.columns("verdicts", func(col *columns) {
		v := &m.Verdicts
		rows(col, v, MaxSync, 2)
		col.codes(len(*v), func(i int) *Code { return &(*v)[i].Code })
		numbers(col, len(*v), func(i int) *CloseCode { return &(*v)[i].Close })
	})
	losers := m.Losers[:min(len(m.Losers), MaxLosers)]
	c.columns("losers", func(col *columns) {
		l := &losers
		rows(col, l, MaxLosers, 5)
		n := len(*l)
		col.uids(n, func(i int) *UID { return &(*l)[i].UID })
		col.processes(n, func(i int) *Process { return &(*l)[i].Owner })
		col.sessions(n, func(i int) *SessionNum { return &(*l)[i].Session })
		numbers(col, n, func(i int) *CloseCode { return &(*l)[i].Close })
	})
	if !c.writing {
		m.Losers = losers
	}
}

// MaxLosers bounds the losers of one answer: those beyond it do not travel, and are told by their
// own next touch.
const MaxLosers = 2048
