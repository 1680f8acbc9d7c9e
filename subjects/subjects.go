package subjects

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Token is the only form in which a uid enters a subject: the uid itself when it is all
// [A-Za-z0-9_-], else "=" and its base64url without padding.
type Token string

// TokenOf gives the token of a uid.
func TokenOf(u schema.UID) Token {
	if isWord(string(u)) {
		return Token(u)
	}
	return Token("=" + base64.RawURLEncoding.EncodeToString([]byte(u)))
}

// UID gives back the uid of a token, or an error for a token that TokenOf never gives.
func (t Token) UID() (schema.UID, error) {
	u := schema.UID(t)
	if enc, ok := strings.CutPrefix(string(t), "="); ok {
		raw, err := base64.RawURLEncoding.DecodeString(enc)
		if err != nil {
			return "", fmt.Errorf("uid token %q: %w", string(t), err)
		}
		u = schema.UID(raw)
	}
	if err := u.Check(); err != nil {
		return "", fmt.Errorf("uid token %q: %w", string(t), err)
	}
	if TokenOf(u) != t {
		return "", fmt.Errorf("uid token %q is not the one form of its uid", string(t))
	}
	return u, nil
}

// SlotOf gives a uid's slot: what partition(256,1) of a NATS subject mapping gives for its token.
func SlotOf(u schema.UID) schema.Slot {
	h := fnv.New32a()
	h.Write([]byte(TokenOf(u)))
	return schema.Slot(h.Sum32() % schema.Slots)
}

func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != ""
}

// Prefix goes in front of every subject and names bucket, streams and service too. The zero value
// is none.
type Prefix string

// Check tells what is wrong with a prefix, or returns nil.
func (p Prefix) Check() error {
	if p == "" {
		return nil
	}
	for part := range strings.SplitSeq(string(p), ".") {
		if !isWord(part) {
			return fmt.Errorf("prefix %q: each part between dots takes letters, digits, _ and -", string(p))
		}
	}
	return nil
}

func (p Prefix) join(parts ...string) string {
	if p != "" {
		parts = append([]string{string(p)}, parts...)
	}
	return strings.Join(parts, ".")
}

func (p Prefix) cut(subject string) ([]string, bool) {
	if p != "" {
		rest, ok := strings.CutPrefix(subject, string(p)+".")
		if !ok {
			return nil, false
		}
		subject = rest
	}
	return strings.Split(subject, "."), true
}

// name gives what a bucket, stream or service is called: dots of the prefix become "_".
func (p Prefix) name(base string) string {
	if p == "" {
		return base
	}
	return strings.ReplaceAll(string(p), ".", "_") + "_" + base
}

// SlotOp is an operation that a slot's authority serves on the slot's own subject.
type SlotOp string

// The operations of a slot.
const (
	Register   SlotOp = "register"
	Commit     SlotOp = "commit"
	Unregister SlotOp = "unregister"
	Touch      SlotOp = "touch"
	Sync       SlotOp = "sync"
	Remove     SlotOp = "remove"
)

// Slot is where a slot's authority serves op: slot.<slot>.<fence>.<op>. The fence stands in the
// address, so that a deposed authority is not subscribed to what goes to its successor.
func (p Prefix) Slot(s schema.Slot, fence schema.Revision, op SlotOp) string {
	return p.join("slot", slotText(s), strconv.FormatUint(uint64(fence), 10), string(op))
}

// SlotAll is what the authority of a slot at a fence subscribes to.
func (p Prefix) SlotAll(s schema.Slot, fence schema.Revision) string {
	return p.Slot(s, fence, "*")
}

// ParseSlot reads the subject of a slot operation.
func (p Prefix) ParseSlot(subject string) (s schema.Slot, fence schema.Revision, op SlotOp, ok bool) {
	parts, ok := p.cut(subject)
	if !ok || len(parts) != 4 || parts[0] != "slot" {
		return 0, 0, "", false
	}
	s, ok = parseSlotText(parts[1])
	f, err := strconv.ParseUint(parts[2], 10, 64)
	return s, schema.Revision(f), SlotOp(parts[3]), ok && err == nil
}

func slotText(s schema.Slot) string { return strconv.Itoa(int(s)) }

func parseSlotText(text string) (schema.Slot, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return schema.Slot(n), err == nil && n < schema.Slots
}

// AuthorityOp is a request that an authority process answers for all its slots.
type AuthorityOp string

// The requests to an authority process.
const (
	Lookup  AuthorityOp = "lookup"
	Explain AuthorityOp = "explain"
	Status  AuthorityOp = "status"
)

// Authority is where an authority process answers op: authority.<node>.<boot>.<op>.
func (p Prefix) Authority(a schema.Process, op AuthorityOp) string {
	return p.join("authority", string(a.Node), string(a.Boot), string(op))
}

// AuthorityAll is what an authority process subscribes to.
func (p Prefix) AuthorityAll(a schema.Process) string { return p.Authority(a, "*") }

// ParseAuthority reads the operation of a request to an authority process.
func (p Prefix) ParseAuthority(subject string) (AuthorityOp, bool) {
	parts, ok := p.cut(subject)
	if !ok || len(parts) != 4 || parts[0] != "authority" {
		return "", false
	}
	return AuthorityOp(parts[3]), true
}

// Push is where a gateway process takes messages for its sessions: push.<node>.<boot>.
func (p Prefix) Push(g schema.Process) string { return p.join("push", string(g.Node), string(g.Boot)) }

// Kick is where a gateway process takes kicks: kick.<node>.<boot>.
func (p Prefix) Kick(g schema.Process) string { return p.join("kick", string(g.Node), string(g.Boot)) }

// Sessions is where a gateway process tells of its sessions: gateway.<node>.<boot>.sessions.
func (p Prefix) Sessions(g schema.Process) string {
	return p.join(GatewayKeys, string(g.Node), string(g.Boot), "sessions")
}

// Event is where changes of one uid are published: event.<slot>.<uid token>.
func (p Prefix) Event(u schema.UID) string {
	return p.join("event", slotText(SlotOf(u)), string(TokenOf(u)))
}

// SlotEvent is where changes of a whole slot are published: event.<slot>.
func (p Prefix) SlotEvent(s schema.Slot) string { return p.join("event", slotText(s)) }

// AllEvents matches the events of every uid and slot.
func (p Prefix) AllEvents() string { return p.join("event", ">") }

// Up is where a gateway sends what a client sent: up.<slot>.<uid token>.
func (p Prefix) Up(u schema.UID) string {
	return p.join("up", slotText(SlotOf(u)), string(TokenOf(u)))
}

// AllUp is what a backend subscribes to for what all clients send.
func (p Prefix) AllUp() string { return p.join("up", ">") }

// Service is the name of the micro service, and the group of its endpoints' subjects.
func (p Prefix) Service() string { return p.name("presence") }

// ServiceCall is the subject of one call of the service: presence.<call>.
func (p Prefix) ServiceCall(call string) string { return p.join("presence", call) }

// SysDisconnect is where the account imports the server's disconnect events.
func (p Prefix) SysDisconnect() string { return p.join("sys", "disconnect") }
