package schema

import "time"

// Sessions asks a gateway process for its sessions, page by page, or for one of them.
type Sessions struct {
	To    Process
	Only  SessionNum // the one asked for; zero: all
	After SessionNum // the Next of the page before; zero: from the first
	Limit uint32     // of the page, at most MaxSessions
}

// MaxSessions bounds the sessions of one page.
const MaxSessions = 1000

// Kind is KindSessions.
func (*Sessions) Kind() Kind { return KindSessions }

func (m *Sessions) fields(c *coder) {
	c.process("to", &m.To)
	number(c, "only", &m.Only)
	number(c, "after", &m.After)
	number(c, "limit", &m.Limit)
}

// SessionsAnswer is one page of a gateway's sessions, by ascending index.
type SessionsAnswer struct {
	ProcessHead
	Next   SessionNum // zero: this was the last page
	Routes []Route    // their owner is From
}

// Kind is KindSessionsAnswer.
func (*SessionsAnswer) Kind() Kind { return KindSessionsAnswer }

func (m *SessionsAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	number(c, "next", &m.Next)
	c.columns("sessions", func(col *columns) {
		r := &m.Routes
		rows(col, r, MaxSessions, routeWidth+2)
		col.uids(len(*r), func(i int) *UID { return &(*r)[i].UID })
		col.routes(*r)
		durations(col, len(*r), time.Millisecond, func(i int) *time.Duration { return &(*r)[i].TTL })
		for i := 0; i < len(*r) && !c.writing; i++ {
			(*r)[i].Owner = m.From
		}
	})
}
