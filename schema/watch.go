package schema

import (
	"encoding/binary"
	"slices"
)

// WatchCall is the JSON of auth.watch: a client wants to follow users whom its token does not list.
type WatchCall struct {
	UID    UID      `json:"uid"` // the client's own
	Device DeviceID `json:"device"`
	Flag   Flag     `json:"flag"`
	Watch  []UID    `json:"watch"` // each once
}

// WatchReply is its answer: those of them whom it may. An answer without the field is none.
type WatchReply struct {
	Allowed []UID `json:"allowed"`
}

// EncodedUser is one user of a presence frame in one encoding, so that a change that many are told
// of is encoded once.
type EncodedUser []byte

// EncodeUser encodes a user for Presence.
func (e Encoding) EncodeUser(u WatchedUser) EncodedUser {
	b := u.appendJSON(make([]byte, 0, 160))
	if e == Msgpack {
		return appendMsgpack(make([]byte, 0, len(b)), b)
	}
	return b
}

// Presence gives the presence frame of users that are encoded already.
func (e Encoding) Presence(users []EncodedUser) []byte {
	const overhead = 40 // the frame without its users, and room for commas
	n := overhead
	for _, u := range users {
		n += len(u) + 1
	}
	b := make([]byte, 0, n)
	if e == Msgpack {
		return append(msgpackPresence(b, len(users)), slices.Concat(users...)...)
	}
	b = append(b, `{"type":"`+string(TypePresence)+`","users":[`...)
	for i, u := range users {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, u...)
	}
	return append(b, ']', '}')
}

// msgpackPresence appends all of a presence frame that stands before its n users.
func msgpackPresence(b []byte, n int) []byte {
	b = append(b, 0x82) // a map of two
	b = appendText(appendText(appendText(b, "type"), string(TypePresence)), "users")
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	if n <= 0xffff {
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// appendJSON is what encoding/json would make of a user, at a tenth of the cost.
func (u *WatchedUser) appendJSON(b []byte) []byte {
	o := object(append(b, '{')).text("uid", string(u.UID)).text("state", u.State)
	if len(u.Devices) > 0 {
		o = append(o.name("devices"), '[')
		for i, d := range u.Devices {
			if i > 0 {
				o = append(o, ',')
			}
			o = append(d.appendTo(append(o, '{')), '}')
		}
		o = append(o, ']')
	}
	if u.Reason != "" {
		o = o.text("reason", u.Reason)
	}
	if u.Stamp != nil {
		o = o.pair("stamp", uint64(u.Stamp.Fence), u.Stamp.K)
	}
	return append(o, '}')
}

func (d *WatchedDevice) appendTo(o object) object {
	for _, field := range [...][2]string{{"device", string(d.Device)}, {"flag", string(d.Flag)}, {"level", d.Level}} {
		if field[1] != "" {
			o = o.text(field[0], field[1])
		}
	}
	return o
}
