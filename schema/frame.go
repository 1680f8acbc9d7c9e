package schema

import "encoding/json"

// FrameType says what a WebSocket frame is. Types of newer versions keep their text: a gateway
// answers them with FrameUnknownType, a client ignores them.
type FrameType string

// The types of frames.
//
//	client                       gateway
//	  hello    ------------------> |       first, once
//	  | <----------------- connected       may come again: take the new values
//	  ping     ------------------> pong
//	  | <---------------------- recv       with an ack number when one is wanted
//	  ack      ------------------> |
//	  send     ------------------> sent    with what the backend answered
//	  watch    ------------------> ok, then presence; presence again at each change
//	  unwatch  ------------------> ok
//	  refresh  ------------------> refreshed
//	  any      ------------------> error   instead of its answer; echoes the id
const (
	TypeHello   FrameType = "hello"
	TypePing    FrameType = "ping"
	TypeAck     FrameType = "ack"
	TypeSend    FrameType = "send"
	TypeWatch   FrameType = "watch"
	TypeUnwatch FrameType = "unwatch"
	TypeRefresh FrameType = "refresh"

	TypeConnected FrameType = "connected"
	TypePong      FrameType = "pong"
	TypeRecv      FrameType = "recv"
	TypeSent      FrameType = "sent"
	TypePresence  FrameType = "presence"
	TypeRefreshed FrameType = "refreshed"
	TypeOK        FrameType = "ok"
	TypeError     FrameType = "error"
)

// ClientFrame is any frame that a client sends; a field is set where its heading's type has it.
// Decoding checks JSON types only: ids, flag and level are for the gateway to check.
type ClientFrame struct {
	Type FrameType `json:"type"`
	ID   string    `json:"id,omitempty"` // any frame: echoed by its answer

	// hello; refresh has the token only
	Token  string    `json:"token,omitempty"`
	Device DeviceID  `json:"device,omitempty"`
	Flag   Flag      `json:"flag,omitempty"`   // empty is app
	Level  string    `json:"level,omitempty"`  // for ParseLevel; empty is slave
	Resume SessionID `json:"resume,omitempty"` // this client's previous session
	Client string    `json:"client,omitempty"` // name/version, for people

	// ack
	Acks []uint64 `json:"acks,omitempty"`

	// send
	Payload json.RawMessage `json:"payload,omitempty"`

	// watch, unwatch
	UIDs []UID `json:"uids,omitempty"`
}

// ServerFrame is any frame that a gateway sends; a field is set where its heading's type has it.
type ServerFrame struct {
	Type FrameType `json:"type"`
	ID   string    `json:"id,omitempty"` // recv: the message's; answers and errors: the client frame's

	// connected; refreshed has the expiry only
	Session     SessionID `json:"session,omitempty"`
	Node        NodeID    `json:"node,omitempty"`
	Boot        BootID    `json:"boot,omitempty"`
	UID         UID       `json:"uid,omitempty"`
	Device      DeviceID  `json:"device,omitempty"`
	Flag        Flag      `json:"flag,omitempty"`
	Level       string    `json:"level,omitempty"`
	HeartbeatMS int64     `json:"heartbeat_ms,omitempty"`
	ExpiresAt   int64     `json:"expires_at,omitempty"` // unix seconds; 0 is never
	MaxBytes    int64     `json:"max_bytes,omitempty"`  // the largest frame that the gateway takes

	// recv
	From    UID             `json:"from,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Ack     uint64          `json:"ack,omitempty"` // 0 is none wanted; numbers start at 1

	// sent
	Reply json.RawMessage `json:"reply,omitempty"`

	// presence
	Users []WatchedUser `json:"users,omitempty"`

	// error
	Code         FrameCode `json:"code,omitempty"`
	Message      string    `json:"message,omitempty"`
	Retryable    bool      `json:"retryable,omitempty"`
	RetryAfterMS int64     `json:"retry_after_ms,omitempty"`
	UIDs         []UID     `json:"uids,omitempty"`  // not_allowed of a watch: whom the client may not follow
	Close        CloseCode `json:"close,omitempty"` // the close that follows
}

// WatchedUser is one user of a presence frame.
type WatchedUser struct {
	UID     UID             `json:"uid"`
	State   string          `json:"state"` // online, offline or unknown
	Devices []WatchedDevice `json:"devices,omitempty"`
	Reason  string          `json:"reason,omitempty"` // a Reason, where an event brought it
	Stamp   *Stamp          `json:"stamp,omitempty"`  // nil where unknown
}

// WatchedDevice is one device of a user that is online.
type WatchedDevice struct {
	Device DeviceID `json:"device,omitempty"`
	Flag   Flag     `json:"flag,omitempty"`
	Level  string   `json:"level,omitempty"`
}
