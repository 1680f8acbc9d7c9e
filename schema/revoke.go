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

// RevokeAnswer says how many sessions one gateway has ended.
type RevokeAnswer struct {
	ProcessHead
	Closed uint32
}

// Kind is KindRevokeAnswer.
func (*RevokeAnswer) Kind() Kind { return KindRevokeAnswer }

func (m *RevokeAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	number(c, "closed", &m.Closed)
}
