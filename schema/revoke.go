package schema

// Revoke asks all gateways to end the sessions that match, pending ones included. Each answers
// for itself and goes on refusing what matches for a while, since a login may be under way.
type Revoke struct {
	UID     UID
	Device  DeviceID // empty: every device
	TokenID string   // empty: every token
	Close   CloseCode
	Why     string // the close reason
}

// Kind is KindRevoke.
func (*Revoke) Kind() Kind { return KindRevoke }

func (m *Revoke) fields(c *coder) {
	c.uid("uid", &m.UID)
	text(c, "device", &m.Device, MaxDevice)
	text(c, "token id", &m.TokenID, MaxTokenID)
	number(c, "close", &m.Close)
	text(c, "why", &m.Why, maxWhy)
}

// RevokeAnswer tells which sessions one gateway has ended, because of this message or of the same
// one a moment before: an answer may get lost.
type RevokeAnswer struct {
	ProcessHead
	Ended []Revoked // at most MaxEntries
}

// Revoked is one session that has ended.
type Revoked struct {
	Session SessionNum
	Device  DeviceID
	Flag    Flag
}

// Kind is KindRevokeAnswer.
func (*RevokeAnswer) Kind() Kind { return KindRevokeAnswer }

func (m *RevokeAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	list(c, "ended", &m.Ended, MaxEntries, func(e *Revoked) {
		c.array("session", func() {
			number(c, "session", &e.Session)
			text(c, "device", &e.Device, MaxDevice)
			text(c, "flag", &e.Flag, MaxFlag)
		})
	})
}
