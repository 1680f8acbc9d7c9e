package subjects

import (
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Event is where changes of one uid are published: event.<slot>.<uid token>.
func (p Prefix) Event(u schema.UID) string { return p.user("event", u) }

// SlotEvent is where changes of a whole slot are published: event.<slot>.
func (p Prefix) SlotEvent(s schema.Slot) string { return p.join("event", slotText(s)) }

// SlotEvents matches the events of all slots, and of no uid.
func (p Prefix) SlotEvents() string { return p.join("event", "*") }

// AllEvents matches the events of every uid and slot.
func (p Prefix) AllEvents() string { return p.join("event", ">") }

// EventStream is the JetStream stream that keeps events, where one is wanted: presence_events.
func (p Prefix) EventStream() string { return p.name("presence_events") }

// ParseEvent reads the uid of a uid's event.
func (p Prefix) ParseEvent(subject string) (schema.UID, bool) { return p.parseUser("event", subject) }

// Up is where a gateway sends what a client sent: up.<slot>.<uid token>.
func (p Prefix) Up(u schema.UID) string { return p.user("up", u) }

// AllUp is what a backend subscribes to for what all clients send.
func (p Prefix) AllUp() string { return p.join("up", ">") }

// ParseUp reads who has sent what came from a client.
func (p Prefix) ParseUp(subject string) (schema.UID, bool) { return p.parseUser("up", subject) }

// AuthConnect is where a gateway asks a backend whose a token is.
func (p Prefix) AuthConnect() string { return p.join("auth", "connect") }

// AuthWatch is where a gateway asks a backend whom a client may watch.
func (p Prefix) AuthWatch() string { return p.join("auth", "watch") }

// Fallback is where delivery publishes what was not reached, or an error for a name that is none:
// fallback.<name>.
func (p Prefix) Fallback(name string) (string, error) {
	if !isWord(name) || len(name) > schema.MaxNode {
		return "", fmt.Errorf("fallback %q: it takes 1 to %d letters, digits, _ and -", name, schema.MaxNode)
	}
	return p.join("fallback", name), nil
}

// Service is the name of the micro service.
func (p Prefix) Service() string { return p.name("presence") }

// ServiceCall is the subject of one call of the service: presence.<call>.
func (p Prefix) ServiceCall(call string) string { return p.join("presence", call) }

// SysDisconnect is where the account imports the server's disconnect events.
func (p Prefix) SysDisconnect() string { return p.join("sys", "disconnect") }

func (p Prefix) user(what string, u schema.UID) string {
	return p.join(what, slotText(SlotOf(u)), string(TokenOf(u)))
}

// parseUser takes only the slot that is the token's own.
func (p Prefix) parseUser(what, subject string) (schema.UID, bool) {
	parts, ok := p.split(subject, what, 3)
	if !ok {
		return "", false
	}
	s, ok := parseSlotText(parts[1])
	u, err := Token(parts[2]).UID()
	if !ok || err != nil || SlotOf(u) != s {
		return "", false
	}
	return u, true
}
