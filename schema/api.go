package schema

import (
	"encoding/json"
	"time"
)

// Bounds of one call of the service.
const (
	MaxCallUIDs = 1000
	MaxAwaitMS  = 30_000
	MaxAckMS    = int64(MaxAckWait / time.Millisecond)
)

// LookupCall is the request of presence.lookup.
type LookupCall struct {
	UIDs    []UID `json:"uids"`
	AwaitMS int64 `json:"await_ms,omitempty"` // wait so long, in all, for slots that are rebuilding
	// LastSeen asks when those who are offline were last there.
	LastSeen bool `json:"last_seen,omitempty"`
}

// LookupReply is its answer; results align with the uids asked.
type LookupReply struct {
	Results []UserReply `json:"results"`
	Next    int         `json:"next,omitempty"` // index of the first uid not answered; 0: none
}

// UserReply is what is known of one uid.
type UserReply struct {
	UID     UID          `json:"uid"`
	State   UserState    `json:"state"`
	Partial bool         `json:"partial"`         // answered while rebuilding: there may be more routes
	Suspect bool         `json:"suspect"`         // by an authority that has no proof of its lease
	Why     string       `json:"why"`             // of an unknown state: rebuilding, unowned or unreachable
	Stamp   *Stamp       `json:"stamp,omitempty"` // missing where nobody answered
	Routes  []RouteReply `json:"routes"`
	// LastSeen is when the last session of a user who is offline went, in RFC 3339, where that was asked
	// and is known.
	LastSeen string `json:"last_seen,omitempty"`
	// LastSeenWhy is a sentence where it was asked and could not be found out.
	LastSeenWhy string `json:"last_seen_why,omitempty"`
}

// RouteReply is one route of a user. Ages are in milliseconds.
type RouteReply struct {
	Node        NodeID    `json:"node"`
	Boot        BootID    `json:"boot"`
	Session     SessionID `json:"session"`
	Listener    Listener  `json:"listener"`
	Device      DeviceID  `json:"device"`
	Flag        Flag      `json:"flag"`
	Level       string    `json:"level"`
	ConnectedMS int64     `json:"connected_ms"`
	ActiveMS    int64     `json:"active_ms"`
	TTLMS       int64     `json:"ttl_ms"`
	Order       Order     `json:"order"`
}

// NewRouteReply gives a route as the service shows it.
func NewRouteReply(r *Route) RouteReply {
	return RouteReply{
		Node: r.Owner.Node, Boot: r.Owner.Boot, Session: r.Session.Outside(r.Owner.Boot),
		Listener: r.Listener, Device: r.Device, Flag: r.Flag, Level: r.Level.String(),
		ConnectedMS: r.Age.Milliseconds(), ActiveMS: r.Idle.Milliseconds(), TTLMS: r.TTL.Milliseconds(),
		Order: r.Order,
	}
}

// Route reads a route of the uid as the service has shown it; false where it cannot be one.
func (r *RouteReply) Route(uid UID) (Route, bool) {
	boot, num, ok := r.Session.Parse()
	level, err := ParseLevel(r.Level)
	if !ok || boot != r.Boot || err != nil {
		return Route{}, false
	}
	return Route{
		UID: uid, Owner: Process{Node: r.Node, Boot: boot}, Session: num, Device: r.Device, Flag: r.Flag, Level: level,
		Listener: r.Listener, Order: r.Order,
		Age: millis(r.ConnectedMS), Idle: millis(r.ActiveMS), TTL: millis(r.TTLMS),
	}, true
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// PushCall is the request of presence.push.
type PushCall struct {
	UIDs      []UID           `json:"uids"`
	Payload   json.RawMessage `json:"payload"`
	ID        string          `json:"id,omitempty"` // drawn where empty
	From      UID             `json:"from,omitempty"`
	Device    DeviceID        `json:"device,omitempty"`      // only this device
	Flag      Flag            `json:"flag,omitempty"`        // only devices of this class
	Ack       bool            `json:"ack,omitempty"`         // the devices are asked to acknowledge
	AckWaitMS int64           `json:"ack_wait_ms,omitempty"` // wait so long for the devices; implies ack
	Except    *Except         `json:"except,omitempty"`
	AwaitMS   int64           `json:"await_ms,omitempty"`
	Fallback  string          `json:"fallback,omitempty"` // where the unreached are published: fallback.<name>
	Report    Report          `json:"report,omitempty"`
}

// Except names the one session that a push skips: all four fields are those of an Up.
type Except struct {
	UID     UID       `json:"uid"`
	Node    NodeID    `json:"node"`
	Boot    BootID    `json:"boot"`
	Session SessionID `json:"session"`
}

// Report says how much a push answers.
type Report string

// The reports.
const (
	ReportFull      Report = "full" // each uid; also where nothing is said
	ReportUnreached Report = "unreached"
	ReportCounts    Report = "counts"
)

// PushReply is the answer of presence.push in the reports full and unreached.
type PushReply struct {
	ID      string        `json:"id"`
	Results []PushedReply `json:"results"`
	Next    int           `json:"next,omitempty"` // index of the first uid that was not pushed to; 0: none
	// FallbackFailed counts the unreached that could not be published.
	FallbackFailed int `json:"fallback_failed,omitempty"`
}

// PushCounts is the answer of presence.push in the report counts, in uids.
type PushCounts struct {
	ID        string `json:"id"`
	Reached   int    `json:"reached"`
	Unreached int    `json:"unreached"`
	Unknown   int    `json:"unknown"` // may have been reached
	// FallbackFailed counts the unreached that could not be published.
	FallbackFailed int `json:"fallback_failed,omitempty"`
}

// Missed is what fallback.<name> carries: a message that did not reach a user.
type Missed struct {
	ID      string          `json:"id"`
	UID     UID             `json:"uid"`
	From    UID             `json:"from,omitempty"`
	Payload json.RawMessage `json:"payload"`
	Why     MissedWhy       `json:"why"`
}

// MissedWhy is why a message did not reach a user. The set is closed.
type MissedWhy string

// Why a message did not reach a user.
const (
	MissedOffline   MissedWhy = "offline"    // no device of those meant is connected
	MissedUnknown   MissedWhy = "unknown"    // nobody could tell: the message may have been written all the same
	MissedQueueFull MissedWhy = "queue_full" // connected, but it reads too slowly
	MissedOwnerGone MissedWhy = "owner_gone" // its gateway has died
)

// PushedReply is what became of a push for one uid.
type PushedReply struct {
	UID     UID           `json:"uid"`
	Reached bool          `json:"reached"` // at least one route has it
	State   UserState     `json:"state"`
	Why     string        `json:"why,omitempty"` // of an unknown state: rebuilding, unowned or unreachable
	Routes  []RoutePushed `json:"routes"`
}

// RoutePushed is what became of a push on one route.
type RoutePushed struct {
	Node    NodeID     `json:"node"`
	Session SessionID  `json:"session"`
	Device  DeviceID   `json:"device"`
	Result  PushResult `json:"result"`
}

// KickCall is the request of presence.kick. Without a filter all sessions of the uid go.
type KickCall struct {
	UID           UID       `json:"uid"`
	Device        DeviceID  `json:"device,omitempty"`
	Flag          Flag      `json:"flag,omitempty"`
	Session       SessionID `json:"session,omitempty"`
	TokenID       string    `json:"token_id,omitempty"` // those with this token; logins with it are refused for 10 s
	Reason        string    `json:"reason,omitempty"`   // the close reason that the client sees
	ExceptSession SessionID `json:"except_session,omitempty"`
}

// KickReply is its answer: the sessions that the filters meant.
type KickReply struct {
	Results []RouteKicked `json:"results"`
	// Unanswered names the gateways that did not say, by token_id, what they have ended.
	Unanswered []NodeID `json:"unanswered,omitempty"`
}

// RouteKicked is what became of one session.
type RouteKicked struct {
	Node    NodeID     `json:"node"`
	Session SessionID  `json:"session"`
	Device  DeviceID   `json:"device"`
	Result  KickResult `json:"result"`
}

// KickResult is what became of a session that was to go. The set is closed.
type KickResult string

// The results of a kick.
const (
	KickClosed    KickResult = "closed"
	KickNoSession KickResult = "no_session" // it was closed before
	KickOwnerGone KickResult = "owner_gone" // its gateway is gone, and the session with it
	KickUnknown   KickResult = "unknown"    // nobody answered, or not in time
)

// SessionsCall is the request of presence.sessions, answered by the gateway concerned.
type SessionsCall struct {
	Node    NodeID    `json:"node,omitempty"`    // may be left out where session is given
	Session SessionID `json:"session,omitempty"` // only this one
	Limit   int       `json:"limit,omitempty"`   // of the page, at most MaxSessions; 0: 500
	Cursor  string    `json:"cursor,omitempty"`  // that of the page before
}

// SessionsReply is its answer: a page of the gateway's active sessions.
type SessionsReply struct {
	Node    NodeID         `json:"node"`
	Boot    BootID         `json:"boot"`
	Results []SessionReply `json:"results"`
	Cursor  string         `json:"cursor,omitempty"` // of the next page; empty: this was the last
}

// SessionReply is one session as its gateway tells of it. Ages are in milliseconds.
type SessionReply struct {
	UID         UID       `json:"uid"`
	Session     SessionID `json:"session"`
	Listener    Listener  `json:"listener"`
	Device      DeviceID  `json:"device"`
	Flag        Flag      `json:"flag"`
	Level       string    `json:"level"`
	ConnectedMS int64     `json:"connected_ms"`
	ActiveMS    int64     `json:"active_ms"`
	TTLMS       int64     `json:"ttl_ms"`
}

// NewSessionReply gives a session as the service shows it.
func NewSessionReply(r *Route) SessionReply {
	return SessionReply{
		UID: r.UID, Session: r.Session.Outside(r.Owner.Boot), Listener: r.Listener, Device: r.Device, Flag: r.Flag,
		Level: r.Level.String(), ConnectedMS: r.Age.Milliseconds(), ActiveMS: r.Idle.Milliseconds(), TTLMS: r.TTL.Milliseconds(),
	}
}

// ExplainCall is the request of presence.explain; its answer is an Explanation.
type ExplainCall struct {
	UID UID `json:"uid"`
}

// SlotsReply is the answer of presence.slots: every slot, and every process that the bucket names.
type SlotsReply struct {
	Slots     []SlotStatus    `json:"slots"`
	Processes []ProcessStatus `json:"processes"`
	// Missing names the authorities that did not say in time how their slots are: those are unreachable here.
	Missing []NodeID `json:"missing,omitempty"`
}

// ProcessStatus is one process as its key shows it.
type ProcessStatus struct {
	Role      string       `json:"role"` // authority or gateway
	Node      NodeID       `json:"node"`
	Boot      BootID       `json:"boot"`
	State     ProcessState `json:"state"`
	Version   string       `json:"version,omitempty"`
	Addresses []string     `json:"addresses,omitempty"`
	Sessions  int          `json:"sessions,omitempty"`
	RenewedMS int64        `json:"renewed_ms"` // age of its renewal, as far as heard here
	// SyncBacklog is how many slots that are being rebuilt still wait for what a gateway has of them. Only
	// presence.slots tells it.
	SyncBacklog int `json:"sync_backlog,omitempty"`
}

// StatsReply is the answer of presence.stats.
type StatsReply struct {
	Users    int         `json:"users"` // online
	Sessions int         `json:"sessions"`
	Nodes    []NodeCount `json:"nodes"` // see LargestCounts
	// Missing names the authorities that did not answer: their slots are not counted.
	Missing []NodeID `json:"missing,omitempty"`
}
