package schema

import (
	"encoding/json"
	"time"
)

// EventType says what an event tells.
type EventType string

// The events of a uid, and of a slot.
const (
	EventOnline  EventType = "online"  // its first session
	EventOffline EventType = "offline" // its last session is gone
	EventAdded   EventType = "added"   // one more session
	EventRemoved EventType = "removed" // one session fewer
	EventRebuilt EventType = "rebuilt" // of a slot: look up again
)

// Event is the JSON of event.<slot>.<token> and event.<slot>. (uid, stamp) is its idempotency key.
type Event struct {
	Type   EventType   `json:"type"`
	Slot   Slot        `json:"slot"`
	UID    UID         `json:"uid,omitempty"`
	Stamp  Stamp       `json:"stamp"`
	Reason Reason      `json:"reason,omitzero"`
	Route  *EventRoute `json:"route,omitempty"`
	Left   int         `json:"left"`         // devices left
	At     string      `json:"at,omitempty"` // RFC 3339, for people
	// Ago is how long before the event was told its cause was: not 0 for an offline that was held back.
	// It does not travel.
	Ago time.Duration `json:"-"`
}

// LastSeen is the JSON of an entry of the bucket last_seen: when the last session of a user went, in
// UTC, and the stamp of the offline event that told of it.
type LastSeen struct {
	At    time.Time `json:"at"`
	Stamp Stamp     `json:"stamp"`
}

// EventRoute is the route that an event is about.
type EventRoute struct {
	Node    NodeID    `json:"node"`
	Boot    BootID    `json:"boot"`
	Session SessionID `json:"session"`
	Device  DeviceID  `json:"device"`
	Flag    Flag      `json:"flag"`
	Level   string    `json:"level"`
	Order   Order     `json:"order"`
}

// Up is the JSON of up.<slot>.<token>: what a client has sent. Its four identity fields are a
// push's Except.
type Up struct {
	ID      string          `json:"id"`
	UID     UID             `json:"uid"`
	Node    NodeID          `json:"node"`
	Boot    BootID          `json:"boot"`
	Session SessionID       `json:"session"`
	Device  DeviceID        `json:"device"`
	Flag    Flag            `json:"flag"`
	Payload json.RawMessage `json:"payload"`
}

// UserState is whether a user is there.
type UserState string

// The three states. Unknown is never reported as offline: the slot is rebuilding, unowned or
// unreachable, and no route is known.
const (
	Online  UserState = "online"
	Offline UserState = "offline"
	Unknown UserState = "unknown"
)
