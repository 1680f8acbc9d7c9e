package subjects

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Token is the only form in which a uid enters a subject: the uid itself when it is all
// [A-Za-z0-9_-], else "=" and its base64url without padding.
type Token string

// maxToken is the length of the longest token: base64 makes 4 characters of 3 bytes.
const maxToken = 1 + (schema.MaxUID*4+2)/3

// TokenOf gives the token of a uid.
func TokenOf(u schema.UID) Token {
	if isWord(string(u)) {
		return Token(u)
	}
	return Token(appendToken(nil, u))
}

func appendToken(b []byte, u schema.UID) []byte {
	if isWord(string(u)) {
		return append(b, u...)
	}
	return base64.RawURLEncoding.AppendEncode(append(b, '='), []byte(u))
}

// UID gives back the uid of a token, or an error for a token that TokenOf gives for no valid uid.
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
	var room [maxToken]byte
	h := fnv.New32a()
	h.Write(appendToken(room[:0], u))
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
