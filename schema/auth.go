package schema

// AuthCall is the JSON of auth.connect: a gateway asks a backend whose a token is.
type AuthCall struct {
	Token    string   `json:"token"`
	Device   DeviceID `json:"device"` // what the client says of itself, as are flag and level
	Flag     Flag     `json:"flag"`
	Level    string   `json:"level"`
	Addr     string   `json:"addr"` // of the client's end of the connection
	Listener Listener `json:"listener"`
}

// AuthReply is its answer. What is left out, or empty, of device, flag and level is the client's to
// say. The other answer is an error as NATS micro services give it: see gateway/PROTOCOL.md.
type AuthReply struct {
	UID       UID        `json:"uid"`
	Device    DeviceID   `json:"device,omitempty"`
	Flag      Flag       `json:"flag,omitempty"`
	Level     string     `json:"level,omitempty"`
	Gen       Generation `json:"gen,omitempty"`
	TokenID   string     `json:"token_id,omitempty"`   // by which it can be revoked, at most MaxTokenID bytes
	ExpiresAt int64      `json:"expires_at,omitempty"` // unix seconds; 0 is never
	Watch     []UID      `json:"watch,omitempty"`      // whose presence it may watch, at most MaxAuthWatch
}

// The bounds of what a token says beside ids.
const (
	MaxTokenID   = 256    // bytes
	MaxAuthWatch = 10_000 // uids
)

// AuthExpired is the text of an error 401 that says: the token was good once.
const AuthExpired = "expired"
