package schema

import (
	"fmt"
	"time"
)

// Push brings messages to sessions of one gateway process.
type Push struct {
	To     Process
	Frames []PushFrame // at most MaxFrames
}

// PushFrame is one message and the sessions it is for.
type PushFrame struct {
	ID         string // the sender's, at most MaxMessageID bytes
	From       UID    // may be empty
	Payload    []byte // a JSON value
	Ack        bool   // the device is asked to acknowledge
	AckWait    time.Duration
	Recipients []Recipient // at most MaxRecipients
}

// Recipient is one session as it was looked up: the gateway writes only where all of it matches.
type Recipient struct {
	UID     UID
	Session SessionNum
	Seq     OwnerSeq
}

// Bounds of one push message; delivery splits what is larger.
const (
	MaxFrames     = 512
	MaxRecipients = 512
	MaxPushBytes  = 256 << 10
	MaxMessageID  = 128
	MaxAckWait    = 30 * time.Second // an acknowledgement that is older is no longer awaited
)

// Kind is KindPush.
func (*Push) Kind() Kind { return KindPush }

func (m *Push) fields(c *coder) {
	c.process("to", &m.To)
	list(c, "frames", &m.Frames, MaxFrames, func(f *PushFrame) {
		c.array("entry", func() {
			text(c, "id", &f.ID, MaxMessageID)
			checked(c, "from", &f.From, MaxUID)
			c.bytes("payload", &f.Payload)
			c.bool("ack", &f.Ack)
			c.millis("ack wait", &f.AckWait)
			c.columns("recipients", func(col *columns) {
				r := &f.Recipients
				rows(col, r, MaxRecipients, 5)
				n := len(*r)
				col.uids(n, func(i int) *UID { return &(*r)[i].UID })
				col.sessions(n, func(i int) *SessionNum { return &(*r)[i].Session })
				deltas(col, n, func(i int) *OwnerSeq { return &(*r)[i].Seq })
			})
		})
	})
}

// PushAnswer gives a result for each recipient of each frame, frame after frame.
type PushAnswer struct {
	ProcessHead
	AcksFollow bool // a PushAcks comes to the same subject
	Results    []PushResult
}

// PushAcks follows a PushAnswer that says so, once: when every acknowledgement asked for is in,
// or the longest AckWait is over. Results are those of the answer, PushAcked where the device has
// acknowledged.
type PushAcks struct {
	From    Process
	Results []PushResult
}

// Kind is KindPushAcks.
func (*PushAcks) Kind() Kind { return KindPushAcks }

func (m *PushAcks) fields(c *coder) {
	c.process("from", &m.From)
	c.pushResults(&m.Results)
}

// PushResult is what became of a message for one session. The set is closed.
type PushResult uint8

// The results of a push.
const (
	PushUnknown   PushResult = iota // nobody answered, or not in time
	PushWritten                     // in the queue of an active session, lost only with its socket
	PushAcked                       // the device has it
	PushQueueFull                   // the session reads too slowly, or has too many acks open
	PushNoSession                   // the gateway has closed that session, or never issued it
	PushOwnerGone                   // the gateway process is gone
	PushPending                     // the session is not active yet: try again in a moment
	pushEnd
)

var pushNames = [...]string{"unknown", "written", "acked", "queue_full", "no_session", "owner_gone", "pending"}

func (r PushResult) String() string {
	if r < pushEnd {
		return pushNames[r]
	}
	return fmt.Sprintf("result(%d)", uint8(r))
}

// Reached reports whether the device has the message, or has it in its socket's queue.
func (r PushResult) Reached() bool { return r == PushWritten || r == PushAcked }

// MarshalText gives the result's name.
func (r PushResult) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a result's name; an unknown one reads as PushUnknown.
func (r *PushResult) UnmarshalText(b []byte) error {
	*r = PushUnknown
	for i, name := range pushNames {
		if name == string(b) {
			*r = PushResult(i)
		}
	}
	return nil
}

// Kind is KindPushAnswer.
func (*PushAnswer) Kind() Kind { return KindPushAnswer }

func (m *PushAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	c.bool("acks follow", &m.AcksFollow)
	c.pushResults(&m.Results)
}

// pushResults walks results; one of a newer process reads as PushUnknown.
func (c *coder) pushResults(r *[]PushResult) {
	c.columns("results", func(col *columns) {
		rows(col, r, MaxFrames*MaxRecipients, 1)
		enums(col, len(*r), pushEnd, PushUnknown, func(i int) *PushResult { return &(*r)[i] })
	})
}

// Kick asks a gateway process to end sessions. Without entries it asks: are you there?
type Kick struct {
	To      Process
	Entries []KickEntry // at most MaxEntries
}

// KickEntry is one session to be ended.
type KickEntry struct {
	UID     UID
	Session SessionNum
	Fence   Revision // under which it was asked; one below the highest known there is refused
	Close   CloseCode
	Why     string // the close reason
}

// Kind is KindKick.
func (*Kick) Kind() Kind { return KindKick }

func (m *Kick) fields(c *coder) {
	c.process("to", &m.To)
	list(c, "entries", &m.Entries, MaxEntries, func(e *KickEntry) {
		c.array("entry", func() {
			c.uid("uid", &e.UID)
			number(c, "session", &e.Session)
			number(c, "fence", &e.Fence)
			number(c, "close", &e.Close)
			text(c, "why", &e.Why, maxWhy)
		})
	})
}

// KickAnswer answers each entry of a kick, in order: CodeOK (it was here and is out), CodeUnknown
// (it was not here, so it is out) or CodeStale (not obeyed).
type KickAnswer struct {
	ProcessHead
	Results []Code
}

// Kind is KindKickAnswer.
func (*KickAnswer) Kind() Kind { return KindKickAnswer }

func (m *KickAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	c.columns("results", func(col *columns) {
		rows(col, &m.Results, MaxEntries, 1)
		col.codes(len(m.Results), func(i int) *Code { return &m.Results[i] })
	})
}
