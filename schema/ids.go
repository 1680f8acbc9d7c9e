package schema

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of the ids, in bytes.
const (
	MaxUID      = 256
	MaxDevice   = 128
	MaxFlag     = 32
	MaxNode     = 64
	MaxListener = 32
	bootLen     = 22
)

type (
	// UID names a user: 1 to 256 bytes of valid UTF-8 without control characters, from outside.
	UID string
	// NodeID is the operator's name of a process: [A-Za-z0-9_-]{1,64}.
	NodeID string
	// BootID names one uninterrupted life of a process, 22 random characters; it never returns.
	BootID string
	// DeviceID names a device of a user, 0 to 128 bytes; the empty one equals no other.
	DeviceID string
	// Flag is a device's class, such as app, web or desktop: [a-z0-9_-]{1,32}.
	Flag string
	// Listener is the name of the listener that a session came in by: [a-z0-9_-]{1,32}.
	Listener string
	// Slot is one of the directory's partitions, 0 to 255.
	Slot uint16
	// Revision is a revision of the bucket; of a slot's key it is the slot's fence.
	Revision uint64
	// OwnerSeq counts the operations of one gateway boot, from 1.
	OwnerSeq uint64
	// SessionNum is a session's number inside its boot: a dense index in the low 32 bits and the
	// index's generation, from 1, in the high 32, so that an owner finds it by array access. The
	// zero value names no session.
	SessionNum uint64
	// SessionID is a session's name outside, unique in the mesh: "<boot>.<number in base 36>".
	SessionID string
	// Generation ranks logins by their token: a lower one never displaces a higher one.
	Generation uint64
)

// Slots is the number of slots of every mesh of this format.
const Slots = 256

// Check tells what is wrong with a uid from outside, or returns nil.
func (u UID) Check() error {
	switch {
	case len(u) > MaxUID:
		return fmt.Errorf("uid has %d bytes: it takes 1 to %d", len(u), MaxUID)
	case !utf8.ValidString(string(u)):
		return fmt.Errorf("uid %q is not valid UTF-8", string(u))
	}
	return u.checkShape()
}

// checkShape is Check of a uid that is known to be valid UTF-8 of at most MaxUID bytes.
func (u UID) checkShape() error {
	if u == "" {
		return fmt.Errorf("uid is empty: it takes 1 to %d bytes", MaxUID)
	}
	for i := range len(u) {
		if c := u[i]; c < 0x20 || c == 0x7f || c == 0xc2 && u[i+1] < 0xa0 { // 0xc2 opens U+0080 to U+00BF
			return fmt.Errorf("uid %q holds the control character %q", string(u), u[i:i+1])
		}
	}
	return nil
}

// Check tells what is wrong with a device id from outside, or returns nil.
func (d DeviceID) Check() error {
	if len(d) > MaxDevice {
		return fmt.Errorf("device has %d bytes: it takes at most %d", len(d), MaxDevice)
	}
	if !utf8.ValidString(string(d)) {
		return fmt.Errorf("device %q is not valid UTF-8", string(d))
	}
	return nil
}

// Check tells what is wrong with a node name, or returns nil.
func (n NodeID) Check() error { return checkWord("node", string(n), MaxNode, true) }

// Check tells what is wrong with a flag, or returns nil.
func (f Flag) Check() error { return checkWord("flag", string(f), MaxFlag, false) }

// Check tells what is wrong with a listener's name, or returns nil.
func (l Listener) Check() error { return checkWord("listener", string(l), MaxListener, false) }

// Check tells what is wrong with a boot id, or returns nil.
func (b BootID) Check() error {
	if len(b) != bootLen {
		return fmt.Errorf("boot %q has %d characters: it takes %d", string(b), len(b), bootLen)
	}
	return checkWord("boot", string(b), bootLen, true)
}

func checkWord(what, s string, most int, upper bool) error {
	allowed := "a-z 0-9 _ -"
	if upper {
		allowed = "A-Z a-z 0-9 _ -" // whole: this runs for every id of every message
	}
	if s == "" || len(s) > most {
		return fmt.Errorf("%s %q has %d characters: it takes 1 to %d of %s", what, s, len(s), most, allowed)
	}
	for i := range len(s) {
		c := s[i]
		lower := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !lower && !(upper && c >= 'A' && c <= 'Z') {
			return fmt.Errorf("%s %q holds %q: it takes 1 to %d of %s", what, s, c, most, allowed)
		}
	}
	return nil
}

// NewBoot draws a boot id: 128 random bits in base64url, 22 characters.
func NewBoot() BootID {
	var b [16]byte
	rand.Read(b[:]) // never fails, by its documentation
	return BootID(base64.RawURLEncoding.EncodeToString(b[:]))
}

// NewSessionNum joins an index and its generation.
func NewSessionNum(index, generation uint32) SessionNum {
	return SessionNum(generation)<<32 | SessionNum(index)
}

// Index is the session's place in its owner's table.
func (s SessionNum) Index() uint32 { return uint32(s) }

// Generation counts the uses of the index before and with this one.
func (s SessionNum) Generation() uint32 { return uint32(s >> 32) }

// Outside is the session's name outside its boot.
func (s SessionNum) Outside(boot BootID) SessionID {
	return SessionID(string(boot) + "." + strconv.FormatUint(uint64(s), 36))
}

// Parse splits a session's outside name; ok is false where it is none of ours.
func (s SessionID) Parse() (boot BootID, num SessionNum, ok bool) {
	head, tail, found := strings.Cut(string(s), ".")
	n, err := strconv.ParseUint(tail, 36, 64)
	if !found || err != nil || BootID(head).Check() != nil || SessionNum(n).Outside(BootID(head)) != s {
		return "", 0, false
	}
	return BootID(head), SessionNum(n), true
}

// Process names one life of a process: gateway or authority.
type Process struct {
	Node NodeID
	Boot BootID
}

func (p Process) String() string { return string(p.Node) + "/" + string(p.Boot) }

// IsZero reports whether p names nobody.
func (p Process) IsZero() bool { return p == Process{} }

// Check tells what is wrong with p, or returns nil.
func (p Process) Check() error {
	if err := p.Node.Check(); err != nil {
		return err
	}
	return p.Boot.Check()
}

// checkWords tells what is wrong with p as it stands in a message, or returns nil: its parts may
// enter a subject, and the zero process is nobody.
func (p Process) checkWords() error {
	if p.IsZero() {
		return nil
	}
	if err := p.Node.Check(); err != nil {
		return err
	}
	return checkWord("boot", string(p.Boot), bootLen, true)
}

// Level is a device's standing in the conflict policies.
type Level uint8

// The levels; the zero value is the default.
const (
	Slave Level = iota
	Master
)

var levelNames = [...]string{"slave", "master"}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads "master" or "slave"; the empty string is slave.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "", "slave":
		return Slave, nil
	case "master":
		return Master, nil
	}
	return Slave, fmt.Errorf("level %q is neither master nor slave", s)
}

// Target names who is to serve a slot: it stands in every request and answer.
type Target struct {
	Slot      Slot
	Fence     Revision
	Authority Process
}

func (t Target) String() string {
	return fmt.Sprintf("slot %d fence %d at %s", t.Slot, t.Fence, t.Authority)
}

// Differs names the first field in which t is not want, or "" where they are equal. It is the one
// place where targets are compared.
func (t Target) Differs(want Target) string {
	switch {
	case t.Slot != want.Slot:
		return "slot"
	case t.Fence != want.Fence:
		return "fence"
	case t.Authority.Node != want.Authority.Node:
		return "node"
	case t.Authority.Boot != want.Authority.Boot:
		return "boot"
	}
	return ""
}

// Order ranks committed logins across gateways and authorities, without clocks. The zero value
// ranks below every committed login.
type Order struct {
	Fence Revision
	N     uint64
}

// Compare ranks by fence, then by the count under it.
func (o Order) Compare(b Order) int {
	return cmp.Or(cmp.Compare(o.Fence, b.Fence), cmp.Compare(o.N, b.N))
}

// MarshalJSON gives [fence, n].
func (o Order) MarshalJSON() ([]byte, error) { return json.Marshal([2]uint64{uint64(o.Fence), o.N}) }

// UnmarshalJSON reads [fence, n].
func (o *Order) UnmarshalJSON(b []byte) error {
	var pair [2]uint64
	err := json.Unmarshal(b, &pair)
	*o = Order{Revision(pair[0]), pair[1]}
	return err
}

// Stamp ranks a slot's events and look-up answers: k counts them in one tenure.
type Stamp struct {
	Fence Revision
	K     uint64
}

// Compare ranks by fence, then by the count under it.
func (s Stamp) Compare(b Stamp) int {
	return cmp.Or(cmp.Compare(s.Fence, b.Fence), cmp.Compare(s.K, b.K))
}

// MarshalJSON gives [fence, k].
func (s Stamp) MarshalJSON() ([]byte, error) { return Order{s.Fence, s.K}.MarshalJSON() }

// UnmarshalJSON reads [fence, k].
func (s *Stamp) UnmarshalJSON(b []byte) error {
	var o Order
	err := o.UnmarshalJSON(b)
	*s = Stamp{o.Fence, o.N}
	return err
}
