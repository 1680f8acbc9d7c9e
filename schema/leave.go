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

func (m *Unregister) fields(c *coder) (int, func()) {
	return 2, func() {
		c.slotHead(&m.Head)
		list(c, "entries", &m.Entries, MaxEntries, func(e *Leave) {
			c.array(4, func() {
				text(c, "uid", &e.UID, MaxUID)
				number(c, &e.Session)
				number(c, &e.Seq)
				c.reason(&e.Reason)
			})
		})
	}
}

// UnregisterAnswer answers each entry of an unregister, in order: CodeOK, CodeOldSeq,
// CodeSuperseded or CodeRetry.
type UnregisterAnswer struct {
	Head    AnswerHead
	Results []Code
}

// Kind is KindUnregisterAnswer.
func (*UnregisterAnswer) Kind() Kind { return KindUnregisterAnswer }

func (m *UnregisterAnswer) fields(c *coder) (int, func()) {
	return 2, func() {
		c.answerHead(&m.Head)
		c.columns("results", func(col *columns) {
			rows(col, &m.Results, MaxEntries)
			col.codes(m.Results)
		})
	}
}

func (c *columns) codes(codes []Code) {
	numbers(c, len(codes), func(i int) *Code { return &codes[i] })
	for i := range codes {
		if codes[i] >= codeEnd {
			codes[i] = CodeInternal
		}
	}
}

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

func (m *Remove) fields(c *coder) (int, func()) {
	return 2, func() {
		c.slotHead(&m.Head)
		c.columns("entries", func(col *columns) {
			e := &m.Entries
			rows(col, e, MaxRecipients)
			n := len(*e)
			texts(col, n, MaxUID, func(i int) *UID { return &(*e)[i].UID })
			col.processes(n, func(i int) *Process { return &(*e)[i].Owner })
			deltas(col, n, func(i int) *SessionNum { return &(*e)[i].Session })
			deltas(col, n, func(i int) *OwnerSeq { return &(*e)[i].Seq })
		})
	}
}

// RemoveAnswer says how many routes were removed; the others had changed.
type RemoveAnswer struct {
	Head    AnswerHead
	Removed uint32
}

// Kind is KindRemoveAnswer.
func (*RemoveAnswer) Kind() Kind { return KindRemoveAnswer }

func (m *RemoveAnswer) fields(c *coder) (int, func()) {
	return 2, func() {
		c.answerHead(&m.Head)
		number(c, &m.Removed)
	}
}
