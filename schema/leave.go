package schema

// Unregister tells that sessions have ended.
type Unregister struct {
	Head    SlotHead
	Entries []Leave // at most MaxEntries
}

// Leave is one session that has ended.
type Leave struct {
	UID     UID
	Session SessionNum
	Seq     OwnerSeq
	Reason  Reason
}

// Kind is KindUnregister.
func (*Unregister) Kind() Kind { return KindUnregister }

func (m *Unregister) fields(c *coder) {
	c.slotHead(&m.Head)
	list(c, "entries", &m.Entries, MaxEntries, func(e *Leave) {
		c.array("entry", func() {
			c.uid("uid", &e.UID)
			number(c, "session", &e.Session)
			number(c, "seq", &e.Seq)
			enum(c, "reason", &e.Reason, reasonEnd, 0)
		})
	})
}

// UnregisterAnswer answers each entry of an unregister, in order: CodeOK, CodeOldSeq,
// CodeSuperseded or CodeRetry.
type UnregisterAnswer struct {
	Head    AnswerHead
	Results []Code
}

// Kind is KindUnregisterAnswer.
func (*UnregisterAnswer) Kind() Kind { return KindUnregisterAnswer }

func (m *UnregisterAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	c.columns("results", func(col *columns) {
		rows(col, &m.Results, MaxEntries, 1)
		col.codes(len(m.Results), func(i int) *Code { return &m.Results[i] })
	})
}

func (c *columns) codes(n int, at func(i int) *Code) { enums(c, n, codeEnd, CodeInternal, at) }

// Remove asks that routes which their owner disowned be removed, each only while it still has
// exactly the seq that was looked up. Delivery sends it.
type Remove struct {
	Head    SlotHead // From and Settled are zero
	Entries []Disowned
}

// Disowned is a route as it was looked up.
type Disowned struct {
	UID     UID
	Owner   Process
	Session SessionNum
	Seq     OwnerSeq
}

// Kind is KindRemove.
func (*Remove) Kind() Kind { return KindRemove }

func (m *Remove) fields(c *coder) {
	c.slotHead(&m.Head)
	c.columns("entries", func(col *columns) {
		e := &m.Entries
		rows(col, e, MaxRecipients, 5)
		n := len(*e)
		col.uids(n, func(i int) *UID { return &(*e)[i].UID })
		col.processes(n, func(i int) *Process { return &(*e)[i].Owner })
		col.sessions(n, func(i int) *SessionNum { return &(*e)[i].Session })
		deltas(col, n, func(i int) *OwnerSeq { return &(*e)[i].Seq })
	})
}

// RemoveAnswer says how many routes were removed; the others had changed.
type RemoveAnswer struct {
	Head    AnswerHead
	Removed uint32
}

// Kind is KindRemoveAnswer.
func (*RemoveAnswer) Kind() Kind { return KindRemoveAnswer }

func (m *RemoveAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	number(c, "removed", &m.Removed)
}
