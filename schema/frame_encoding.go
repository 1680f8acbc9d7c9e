package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// The frames have one form, JSON; the msgpack encoding is a transcoding of it, so both know the
// same names and rules:
//
//	frame --encoding/json--> JSON --frame_msgpack.go--> msgpack
//	frame <-encoding/json--- JSON <-frame_msgpack.go--- msgpack <-Guard- bytes

// MaxFrameDepth is how deep the objects and arrays of a frame nest, the frame's own object
// included; a payload has one level less.
const MaxFrameDepth = 33

var (
	// ErrFrameField is returned when a frame's field has a value of the wrong type, which it
	// names. Type and id are then set as far as they could be read, for the error frame.
	ErrFrameField = errors.New("bad field")
	// ErrNotUTF8 is returned when a text frame, or a payload, is not valid UTF-8.
	ErrNotUTF8 = errors.New("not valid UTF-8")
)

// Encoding is one of the two forms that frames have on the wire.
type Encoding uint8

// The encodings; the zero value is what a client gets that offers no subprotocol.
const (
	JSON    Encoding = iota // text frames
	Msgpack                 // binary frames
)

var subprotocols = [...]string{JSON: "rollcall.v1.json", Msgpack: "rollcall.v1.msgpack"}

// Subprotocols lists the WebSocket subprotocols in the order of the encodings.
func Subprotocols() []string { return append([]string(nil), subprotocols[:]...) }

// ParseSubprotocol gives the encoding of a WebSocket subprotocol; the empty one is JSON.
func ParseSubprotocol(s string) (e Encoding, ok bool) {
	for i, name := range subprotocols {
		if s == name || s == "" {
			return Encoding(i), true
		}
	}
	return JSON, false
}

// Subprotocol is the encoding's name in the WebSocket handshake.
func (e Encoding) Subprotocol() string { return subprotocols[e] }

// Frame is a ClientFrame or a ServerFrame.
type Frame interface{ isFrame() }

func (ClientFrame) isFrame() {}
func (ServerFrame) isFrame() {}

// Encode gives a frame's bytes. It returns ErrNotUTF8, or ErrFrameField for a payload that is not
// JSON or nests too deep: payloads come from outside, see CheckPayload.
func (e Encoding) Encode(f Frame) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("encode frame: %w: %s", ErrFrameField, err)
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	switch {
	case !utf8.Valid(b):
		return nil, fmt.Errorf("encode frame: %w", ErrNotUTF8)
	case jsonDepth(b) > MaxFrameDepth:
		return nil, fmt.Errorf("encode frame: %w: nested deeper than %d", ErrFrameField, MaxFrameDepth)
	case e == Msgpack:
		return appendMsgpack(make([]byte, 0, len(b)), b), nil
	}
	return b, nil
}

// WithAck gives a copy of an encoded frame with the field ack added, so that a recv for many
// sessions is encoded once an encoding. The frame is one of Encode's, without an ack of its own.
func (e Encoding) WithAck(frame []byte, ack uint64) []byte {
	const key = "ack"
	out := make([]byte, 0, len(frame)+len(`,"ack":`)+20)
	if e == Msgpack {
		out = append(out, frame...)
		out[0]++ // a frame has fewer than 15 fields: its head is one byte, 0x80 + their number
		return appendUint(appendText(out, key), ack)
	}
	out = append(out, frame[:len(frame)-1]...)
	out = append(out, `,"`+key+`":`...)
	return append(strconv.AppendUint(out, ack, 10), '}')
}

// DecodeClient reads a client's frame from untrusted bytes. It returns ErrNotUTF8 for a text frame
// that is not UTF-8, ErrMalformed for what is not an object with a type, and ErrFrameField for a
// field of the wrong type. Unknown fields are ignored, of a repeated one the last counts.
func (e Encoding) DecodeClient(b []byte) (ClientFrame, error) {
	var f ClientFrame
	err := e.decode(b, &f, &f.Type)
	return f, err
}

// DecodeServer reads a gateway's frame; the errors are those of DecodeClient.
func (e Encoding) DecodeServer(b []byte) (ServerFrame, error) {
	var f ServerFrame
	err := e.decode(b, &f, &f.Type)
	f.Code = f.Code.known()
	return f, err
}

func (e Encoding) decode(b []byte, f any, kind *FrameType) error {
	text, err := e.toJSON(b)
	if err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	err = json.Unmarshal(text, f)
	if *kind == "" {
		return fmt.Errorf("decode frame: %w: not an object with a type", ErrMalformed)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("decode frame: %w: %s takes no %s", ErrFrameField, wrong.Field, wrong.Value)
	}
	if err != nil {
		return fmt.Errorf("decode frame: %w: %s", ErrMalformed, err)
	}
	return nil
}

// toJSON gives the checked JSON text of b; only its syntax is left to check.
func (e Encoding) toJSON(b []byte) ([]byte, error) {
	if e == Msgpack {
		if err := Guard(b, MaxFrameDepth); err != nil {
			return nil, err
		}
		return jsonOfMsgpack(b)
	}
	if !utf8.Valid(b) {
		return nil, ErrNotUTF8
	}
	if jsonDepth(b) > MaxFrameDepth {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrMalformed, MaxFrameDepth)
	}
	return b, nil
}

// CheckPayload tells whether a payload from outside can travel in a frame: one JSON value of valid
// UTF-8 that nests no deeper than MaxFrameDepth-1. It returns ErrNotUTF8 or ErrFrameField.
func CheckPayload(p json.RawMessage) error {
	switch {
	case !utf8.Valid(p):
		return fmt.Errorf("payload: %w", ErrNotUTF8)
	case jsonDepth(p) > MaxFrameDepth-1:
		return fmt.Errorf("%w: payload nests deeper than %d", ErrFrameField, MaxFrameDepth-1)
	case !json.Valid(p):
		return fmt.Errorf("%w: payload is not a JSON value", ErrFrameField)
	}
	return nil
}

// jsonDepth counts how deep the arrays and objects of b nest, in one pass and without recursion.
// Where b is not JSON the figure means nothing, and the decoder refuses it anyway.
func jsonDepth(b []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = endOfString(b, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// endOfString gives the index of the quote that ends the string which starts at b[i], or len(b).
func endOfString(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return min(i, len(b))
}
