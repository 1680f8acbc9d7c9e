package schema

import (
	"fmt"
	"maps"
	"slices"
)

// CloseCode is a WebSocket close code. The code alone tells a client what to do; the reason that
// goes with it is short English for people.
type CloseCode uint16

// MaxCloseReason is what a WebSocket close frame holds of a reason, in bytes.
const MaxCloseReason = 123

// The close codes that a session can end with.
const (
	CloseBye           CloseCode = 1000
	CloseGoingAway     CloseCode = 1001
	CloseProtocol      CloseCode = 1002
	CloseWrongKind     CloseCode = 1003
	CloseNoStatus      CloseCode = 1005 // never on the wire: a close frame without a code
	CloseAbnormal      CloseCode = 1006 // never on the wire: no close frame seen
	CloseBadUTF8       CloseCode = 1007
	ClosePolicy        CloseCode = 1008
	CloseTooBig        CloseCode = 1009
	CloseInternal      CloseCode = 1011
	CloseRestart       CloseCode = 1012
	CloseNotNow        CloseCode = 1013
	CloseHelloLate     CloseCode = 3001
	CloseHeartbeat     CloseCode = 3002
	CloseSlow          CloseCode = 3004
	CloseTokenExpired  CloseCode = 3005
	CloseMeshLost      CloseCode = 3006
	CloseRate          CloseCode = 3007
	CloseBadToken      CloseCode = 3500
	CloseBadFrame      CloseCode = 3501
	CloseKicked        CloseCode = 3502
	CloseReplaced      CloseCode = 3503
	CloseRefused       CloseCode = 3504
	CloseRemoved       CloseCode = 3505
	closeTerminalFirst CloseCode = 3500
	closeTerminalLast  CloseCode = 3999
)

// CloseAction is what a client does after a close.
type CloseAction uint8

// The actions.
const (
	ActionReconnect CloseAction = iota // with backoff
	ActionNewToken                     // get a new token, then reconnect
	ActionStop                         // until a person or the application decides otherwise
)

var actionNames = [...]string{"reconnect", "new_token", "stop"}

func (a CloseAction) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// closes is the table of gateway/PROTOCOL.md.
var closes = map[CloseCode]struct {
	meaning string
	action  CloseAction
}{
	CloseBye:          {"bye", ActionStop},
	CloseGoingAway:    {"gateway is going away", ActionReconnect},
	CloseProtocol:     {"websocket protocol error", ActionStop},
	CloseWrongKind:    {"wrong frame kind for the subprotocol", ActionStop},
	CloseNoStatus:     {"closed without a code", ActionReconnect},
	CloseAbnormal:     {"connection lost", ActionReconnect},
	CloseBadUTF8:      {"text is not UTF-8", ActionStop},
	ClosePolicy:       {"against the gateway's policy", ActionStop},
	CloseTooBig:       {"frame is too big", ActionStop},
	CloseInternal:     {"internal error of the gateway", ActionReconnect},
	CloseRestart:      {"gateway restarts", ActionReconnect},
	CloseNotNow:       {"gateway cannot serve this now", ActionReconnect},
	CloseHelloLate:    {"hello came too late", ActionReconnect},
	CloseHeartbeat:    {"heartbeat missed", ActionReconnect},
	CloseSlow:         {"client reads too slowly", ActionReconnect},
	CloseTokenExpired: {"token expired", ActionNewToken},
	CloseMeshLost:     {"gateway has lost the mesh", ActionReconnect},
	CloseRate:         {"too many frames", ActionReconnect},
	CloseBadToken:     {"token refused", ActionStop},
	CloseBadFrame:     {"frame breaks the rules", ActionStop},
	CloseKicked:       {"kicked by another login", ActionStop},
	CloseReplaced:     {"replaced by the same device", ActionStop},
	CloseRefused:      {"refused by policy", ActionStop},
	CloseRemoved:      {"removed by an operator or revoked", ActionStop},
}

// CloseCodes lists the codes of the table, ascending.
func CloseCodes() []CloseCode { return slices.Sorted(maps.Keys(closes)) }

// Meaning is the code in a few English words.
func (c CloseCode) Meaning() string {
	if e, ok := closes[c]; ok {
		return e.meaning
	}
	return "unknown to this version"
}

// Action is what a client does after c. Of codes unknown to this version, 3500 to 3999 are
// terminal and all others are worth another try.
func (c CloseCode) Action() CloseAction {
	if e, ok := closes[c]; ok {
		return e.action
	}
	if c >= closeTerminalFirst && c <= closeTerminalLast {
		return ActionStop
	}
	return ActionReconnect
}

func (c CloseCode) String() string { return fmt.Sprintf("%d (%s)", uint16(c), c.Meaning()) }
