package mesh

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Opcodes of WebSocket frames (RFC 6455, section 5.2).
const (
	opContinue byte = 0
	opText     byte = 1
	opBinary   byte = 2
	opClose    byte = 8
	opPing     byte = 9
	opPong     byte = 10

	final = 0x80 // the bit beside an opcode
	mask  = 0x80 // the bit beside a length
)

// appendFrame appends a client's frame. The masking key is zero, which masks nothing: the payload
// stands as it is. head is an opcode with its bits, final among them.
func appendFrame(b []byte, head byte, payload []byte) []byte {
	b = append(b, head)
	switch n := len(payload); {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	b = append(b, 0, 0, 0, 0)
	return append(b, payload...)
}

// readFrame reads one frame of a server: unmasked, and never split.
func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var ext [2]byte
		_, err = io.ReadFull(r, ext[:])
		n = uint64(binary.BigEndian.Uint16(ext[:]))
	case 127:
		var ext [8]byte
		_, err = io.ReadFull(r, ext[:])
		n = binary.BigEndian.Uint64(ext[:])
	}
	if err != nil {
		return 0, nil, err
	}
	if head[0]&final == 0 || head[1]&mask != 0 || n > 1<<24 {
		return 0, nil, fmt.Errorf("frame begins with % x: not whole, masked, or too long", head)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0] &^ final, payload, err
}
