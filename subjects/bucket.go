package subjects

import (
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Bucket is the name of the KV bucket that holds who owns what.
func (p Prefix) Bucket() string { return p.name("presence") }

// BucketStream is the stream behind the bucket.
func (p Prefix) BucketStream() string { return "KV_" + p.Bucket() }

// BucketSubjects is what the stream behind the bucket takes.
func (p Prefix) BucketSubjects() string { return p.bucketPrefix() + ">" }

// BucketKey is the subject under which a key of the bucket is stored.
func (p Prefix) BucketKey(key string) string { return p.bucketPrefix() + key }

func (p Prefix) bucketPrefix() string { return "$KV." + p.Bucket() + "." }

// LastSeenBucket is the KV bucket of when users were last there, where that is kept: last_seen.
func (p Prefix) LastSeenBucket() string { return p.name("last_seen") }

// LastSeenStream is the stream behind it.
func (p Prefix) LastSeenStream() string { return "KV_" + p.LastSeenBucket() }

// LastSeen is where a user's entry is stored: $KV.last_seen.<uid token>.
func (p Prefix) LastSeen(u schema.UID) string { return p.lastSeenKey(string(TokenOf(u))) }

// LastSeenGet is where a user's entry is read: a direct get of the stream, by subject.
func (p Prefix) LastSeenGet(u schema.UID) string { return p.lastSeenGet(string(TokenOf(u))) }

func (p Prefix) lastSeenKey(token string) string { return "$KV." + p.LastSeenBucket() + "." + token }

func (p Prefix) lastSeenGet(token string) string {
	return "$JS.API.DIRECT.GET." + p.LastSeenStream() + "." + p.lastSeenKey(token)
}

// Changed is where the server republishes each change of the bucket: presence.changed.>, as the
// destination of a republish of BucketSubjects.
func (p Prefix) Changed() string { return p.join("presence", "changed", ">") }

// ParseChanged gives the key whose change was republished on subject.
func (p Prefix) ParseChanged(subject string) (key string, ok bool) {
	return strings.CutPrefix(subject, strings.TrimSuffix(p.Changed(), ">"))
}

// ConfigKey holds the mesh's settings.
const ConfigKey = "config"

// The kinds of keys that name a process or a slot; the name follows after a dot.
const (
	AuthorityKeys = "authority"
	GatewayKeys   = "gateway"
	SlotKeys      = "slot"
)

// AuthorityKey is the key of an authority process: authority.<node>.
func AuthorityKey(n schema.NodeID) string { return AuthorityKeys + "." + string(n) }

// GatewayKey is the key of a gateway process: gateway.<node>.
func GatewayKey(n schema.NodeID) string { return GatewayKeys + "." + string(n) }

// SlotKey is the key of a slot: slot.<n>.
func SlotKey(s schema.Slot) string { return SlotKeys + "." + slotText(s) }

// ParseKey splits a key into its kind and what it names; ConfigKey has no name.
func ParseKey(key string) (kind, name string) {
	kind, name, _ = strings.Cut(key, ".")
	return kind, name
}

// ParseSlotKey gives the slot of a slot's key.
func ParseSlotKey(key string) (schema.Slot, bool) {
	kind, name := ParseKey(key)
	if kind != SlotKeys {
		return 0, false
	}
	return parseSlotText(name)
}
