package subjects

import (
	"fmt"
	"strings"
)

// Prefix goes in front of every subject and names bucket, streams and service too. The zero value
// is none. Two meshes whose prefixes differ in nothing but dots and underscores would share a
// bucket: their names are told apart by letters.
type Prefix string

const maxPrefix = 64

// Check tells what is wrong with a prefix, or returns nil.
func (p Prefix) Check() error {
	if p == "" {
		return nil
	}
	if len(p) > maxPrefix {
		return fmt.Errorf("prefix has %d characters: it takes at most %d", len(p), maxPrefix)
	}
	for part := range strings.SplitSeq(string(p), ".") {
		if !isWord(part) {
			return fmt.Errorf("prefix %q: each part between dots takes letters, digits, _ and -", string(p))
		}
	}
	return nil
}

// join gives the subject of these parts under the prefix.
func (p Prefix) join(parts ...string) string {
	if p == "" {
		return strings.Join(parts, ".")
	}
	return string(p) + "." + strings.Join(parts, ".")
}

// split gives the n parts of a subject behind the prefix, the first of which is first.
func (p Prefix) split(subject, first string, n int) ([]string, bool) {
	if p != "" {
		rest, ok := strings.CutPrefix(subject, string(p)+".")
		if !ok {
			return nil, false
		}
		subject = rest
	}
	parts := strings.Split(subject, ".")
	return parts, len(parts) == n && parts[0] == first
}

// name gives what a bucket, stream or service is called: dots of the prefix become "_".
func (p Prefix) name(base string) string {
	if p == "" {
		return base
	}
	return strings.ReplaceAll(string(p), ".", "_") + "_" + base
}
