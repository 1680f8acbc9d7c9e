package schema

import "encoding/json"

// Explain asks a slot's authority for all that it holds of a uid. People read the answer, so its
// body is JSON.
type Explain struct {
	Target Target
	Seen   Revision
	UID    UID
}

// Kind is KindExplain.
func (*Explain) Kind() Kind { return KindExplain }

func (m *Explain) fields(c *coder) {
	c.target("target", &m.Target)
	number(c, "seen", &m.Seen)
	c.uid("uid", &m.UID)
}

// ExplainAnswer carries an Explanation as JSON.
type ExplainAnswer struct {
	Head AnswerHead
	Body []byte
}

// Kind is KindExplainAnswer.
func (*ExplainAnswer) Kind() Kind { return KindExplainAnswer }

func (m *ExplainAnswer) fields(c *coder) {
	c.answerHead(&m.Head)
	c.bytes("body", &m.Body)
}

// Explanation is all that an authority holds of a uid.
type Explanation struct {
	UID        UID              `json:"uid"`
	Slot       Slot             `json:"slot"`
	Owner      string           `json:"owner"` // node of the slot's authority
	Boot       BootID           `json:"boot"`
	Fence      Revision         `json:"fence"`
	State      SlotState        `json:"state"`
	Stamp      Stamp            `json:"stamp"`
	Routes     []ExplainedRoute `json:"routes"`
	Tombstones []ExplainedTomb  `json:"tombstones"`
	Refusals   []ExplainedNo    `json:"refusals"` // the last few, newest last
}

// ExplainedRoute is one route, committed or pending.
type ExplainedRoute struct {
	Node        NodeID     `json:"node"`
	Boot        BootID     `json:"boot"`
	Session     SessionID  `json:"session"`
	Device      DeviceID   `json:"device"`
	Flag        Flag       `json:"flag"`
	Level       string     `json:"level"`
	Listener    Listener   `json:"listener"`
	Gen         Generation `json:"gen"`
	Seq         OwnerSeq   `json:"seq"`
	Order       Order      `json:"order"`
	State       string     `json:"state"` // active, pending, or owner_gone
	ConnectedMS int64      `json:"connected_ms"`
	ActiveMS    int64      `json:"active_ms"`
	TTLMS       int64      `json:"ttl_ms"`
}

// ExplainedTomb is what is remembered of a session that is out.
type ExplainedTomb struct {
	Node    NodeID    `json:"node"`
	Session SessionID `json:"session"`
	Seq     OwnerSeq  `json:"seq"`
	Kind    string    `json:"kind"` // tombstone or superseded
}

// ExplainedNo is one refusal.
type ExplainedNo struct {
	Node    NodeID    `json:"node"`
	Session SessionID `json:"session"`
	Code    Code      `json:"code"`
	Why     string    `json:"why,omitempty"`
	AgoMS   int64     `json:"ago_ms"`
}

// Status asks an authority process for the state of its slots.
type Status struct{}

// Kind is KindStatus.
func (*Status) Kind() Kind { return KindStatus }

func (m *Status) fields(*coder) {}

// StatusAnswer carries a StatusReport as JSON.
type StatusAnswer struct {
	ProcessHead
	Body []byte
}

// Kind is KindStatusAnswer.
func (*StatusAnswer) Kind() Kind { return KindStatusAnswer }

func (m *StatusAnswer) fields(c *coder) {
	c.processHead(&m.ProcessHead)
	c.bytes("body", &m.Body)
}

// SlotState is what a slot can answer.
type SlotState string

// The states of a slot.
const (
	SlotReady       SlotState = "ready"
	SlotRebuilding  SlotState = "rebuilding"
	SlotUnowned     SlotState = "unowned"
	SlotUnreachable SlotState = "unreachable" // its owner does not answer, or does not serve it
)

// SlotCause says why a slot came to its owner, or why that one does not serve it.
type SlotCause string

// The causes.
const (
	CauseClaimed SlotCause = "claimed" // nobody owned it: new, or its owner's lease had ended
	CauseHanded  SlotCause = "handed"  // its former owner has written this one into the key
	CauseRetaken SlotCause = "retaken" // its fence was lifted above one already seen
	CauseCorrupt SlotCause = "corrupt" // not served: a fence was seen that is too far above the bucket's revisions
)

// StatusReport is the state of an authority process.
type StatusReport struct {
	Process ProcessName  `json:"process"`
	Suspect bool         `json:"suspect,omitempty"` // it has no proof of its lease
	Slots   []SlotStatus `json:"slots"`
	Counts  []NodeCount  `json:"counts"`
	Users   int          `json:"users"` // online

	// Backlog is how many of the slots wait for the sync of each gateway.
	Backlog map[NodeID]int `json:"backlog,omitempty"`
}

// ProcessName is a process in JSON.
type ProcessName struct {
	Node NodeID `json:"node"`
	Boot BootID `json:"boot"`
}

// SlotStatus is one slot of a StatusReport and of presence.slots. Of one that is unowned the fence is where
// its key stands.
type SlotStatus struct {
	Slot        Slot      `json:"slot"`
	Owner       NodeID    `json:"owner,omitempty"`
	Boot        BootID    `json:"boot,omitempty"`
	Fence       Revision  `json:"fence,omitempty"`
	State       SlotState `json:"state"`
	Suspect     bool      `json:"suspect,omitempty"` // its owner has no proof of its lease, or is handing it over
	Routes      int       `json:"routes"`
	HeldMS      int64     `json:"held_ms,omitempty"`     // since the owner took it
	Cause       SlotCause `json:"cause,omitempty"`       // why it came to this owner, or why it is not served
	Synced      int       `json:"synced,omitempty"`      // while rebuilding: gateways that have sent their last chunk
	Awaited     int       `json:"awaited,omitempty"`     // gateways whose sync is awaited
	Outstanding []NodeID  `json:"outstanding,omitempty"` // the first MaxOutstanding of them, by name
}

// MaxOutstanding bounds the names in a SlotStatus, so that an answer fits a message however many gateways
// all slots wait for.
const MaxOutstanding = 16

// NodeCount is the sessions of one gateway node under one flag; under none those of all flags that
// LargestCounts has not kept apart.
type NodeCount struct {
	Node     NodeID `json:"node"`
	Flag     Flag   `json:"flag"`
	Sessions int    `json:"sessions"`
}

// mustJSON is for the JSON of our own types, which always encodes.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// some gives the slice for JSON, where none is [] and not null.
func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// NewExplainAnswer puts an explanation into an answer.
func NewExplainAnswer(head AnswerHead, e Explanation) *ExplainAnswer {
	e.Routes, e.Tombstones, e.Refusals = some(e.Routes), some(e.Tombstones), some(e.Refusals)
	return &ExplainAnswer{Head: head, Body: mustJSON(e)}
}

// NewStatusAnswer puts a report into an answer.
func NewStatusAnswer(r StatusReport) *StatusAnswer {
	r.Slots, r.Counts = some(r.Slots), some(r.Counts)
	return &StatusAnswer{ProcessHead: ProcessHead{From: Process(r.Process)}, Body: mustJSON(r)}
}
