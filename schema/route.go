package schema

import "time"

// Route says where one device of a user hangs right now. Ages travel, never wall clocks.
type Route struct {
	UID      UID
	Owner    Process // the gateway process whose socket it is
	Session  SessionNum
	Device   DeviceID
	Flag     Flag
	Level    Level
	Listener Listener
	Gen      Generation
	Seq      OwnerSeq      // of the register or sync entry that made it
	Order    Order         // given at commit; zero before
	Age      time.Duration // since it connected, ms on the wire
	Idle     time.Duration // since its last inbound frame, ms on the wire
	TTL      time.Duration // until it expires; in look-up answers only
}

// SameDevice reports whether two routes of one uid are the same device: the empty id is no
// device's, not even its own.
func (r *Route) SameDevice(o *Route) bool { return r.Device != "" && r.Device == o.Device }

// login walks the fields of a route whose owner is the sender.
func (c *coder) login(r *Route) {
	c.uid("uid", &r.UID)
	number(c, "session", &r.Session)
	text(c, "device", &r.Device, MaxDevice)
	checked(c, "flag", &r.Flag, MaxFlag)
	c.level("level", &r.Level)
	checked(c, "listener", &r.Listener, MaxListener)
	number(c, "gen", &r.Gen)
	number(c, "seq", &r.Seq)
}

func (c *coder) level(what string, l *Level) {
	n := uint64(*l)
	c.uint(what, &n, uint64(Master))
	if !c.writing {
		*l = Level(n)
	}
}

// routeWidth is how many bytes a row of routes takes at least.
const routeWidth = 10

// routes walks what sync and look-up have in common, column by column.
func (c *columns) routes(r []Route) {
	n := len(r)
	c.sessions(n, func(i int) *SessionNum { return &r[i].Session })
	texts(c, n, MaxDevice, func(i int) *DeviceID { return &r[i].Device })
	labels(c, n, MaxFlag, func(i int) *Flag { return &r[i].Flag })
	numbers(c, n, func(i int) *Level { return &r[i].Level })
	labels(c, n, MaxListener, func(i int) *Listener { return &r[i].Listener })
	numbers(c, n, func(i int) *Generation { return &r[i].Gen })
	deltas(c, n, func(i int) *OwnerSeq { return &r[i].Seq })
	deltas(c, n, func(i int) *Revision { return &r[i].Order.Fence })
	deltas(c, n, func(i int) *uint64 { return &r[i].Order.N })
	durations(c, n, time.Millisecond, func(i int) *time.Duration { return &r[i].Age })
	durations(c, n, time.Millisecond, func(i int) *time.Duration { return &r[i].Idle })
	for i := range r {
		if r[i].Level > Master {
			c.keep(errRange)
		}
	}
}

// SlotHead opens each request of a gateway to a slot's authority.
type SlotHead struct {
	Target  Target
	Seen    Revision // the highest fence of the slot that the sender knows
	From    Process  // the gateway; zero in a remove, which delivery sends
	Settled OwnerSeq // below it no operation of From is open
}

// slotHead walks the head as an array of its own, so that it too can grow behind.
func (c *coder) slotHead(h *SlotHead) {
	c.array("head", func() {
		c.target("target", &h.Target)
		number(c, "seen", &h.Seen)
		c.process("from", &h.From)
		number(c, "settled", &h.Settled)
	})
}

// AnswerHead opens each answer of an authority.
type AnswerHead struct {
	Code       Code
	Target     Target        // who answers: the slot, and the fence and process it is held by there
	Differs    string        // with CodeMismatch: the field of the request's target that differs
	Owner      Target        // with CodeMismatch and CodeMoved: the owner known there, zero if none
	Seen       Revision      // the highest fence of the slot that is known there
	RetryAfter time.Duration // where a wait is asked for, ms on the wire
	Suspect    bool          // the answering authority has no proof of its lease
	Why        string        // with CodeBad and CodeInternal: a sentence
}

func (c *coder) answerHead(h *AnswerHead) {
	c.array("head", func() {
		c.code("code", &h.Code)
		c.target("target", &h.Target)
		text(c, "differs", &h.Differs, maxDiffers)
		c.target("owner", &h.Owner)
		number(c, "seen", &h.Seen)
		c.millis("retry after", &h.RetryAfter)
		c.bool("suspect", &h.Suspect)
		text(c, "why", &h.Why, maxWhy)
	})
}

// ProcessHead opens each answer that a process gives for itself, not for a slot.
type ProcessHead struct {
	From Process // who answers
	Code Code    // CodeOK, or what is wrong with the request as a whole
	Why  string  // with CodeBad and CodeInternal: a sentence
}

func (c *coder) processHead(h *ProcessHead) {
	c.array("head", func() {
		c.process("from", &h.From)
		c.code("code", &h.Code)
		text(c, "why", &h.Why, maxWhy)
	})
}

// maxDiffers bounds the name of a target's field, in bytes.
const maxDiffers = 32

// maxWhy bounds sentences, in bytes.
const maxWhy = 512

// MaxEntries bounds the entries of one register, commit, unregister or kick.
const MaxEntries = 512
