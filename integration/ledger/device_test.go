package ledger

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// The WebSocket opcodes that a device meets.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// device is one session's end of a socket.
type device struct {
	conn net.Conn
	in   *bufio.Reader
	list *list
}

// dial connects and logs in.
func dial(ctx context.Context, address string, uid schema.UID, id string) (*device, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	d := &device{conn: conn, in: bufio.NewReader(conn), list: &list{}}
	if err := d.login(uid, id); err != nil {
		conn.Close()
		return nil, fmt.Errorf("login of %s: %w", uid, err)
	}
	return d, nil
}

func (d *device) login(uid schema.UID, id string) error {
	_, err := io.WriteString(d.conn, "GET /ws HTTP/1.1\r\nHost: ledger\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(d.in, nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(answer.Status)
	}
	if err := d.send(opText, fmt.Appendf(nil, `{"type":"hello","token":%q,"device":%q}`, string(uid), id)); err != nil {
		return err
	}
	f, err := d.next()
	if err == nil && f.Type != schema.TypeConnected {
		err = fmt.Errorf("%s: %s %s", f.Type, f.Code, f.Message)
	}
	d.list.session = f.Session
	return err
}

// frame is what a device reads of a server's frame.
type frame struct {
	Type    schema.FrameType
	ID      string
	Session schema.SessionID
	Ack     uint64
	Payload struct{ Leave bool }
	Code    string
	Message string
}

// next gives the next object that comes; pings are answered meanwhile.
func (d *device) next() (f frame, err error) {
	for {
		op, data, err := d.read()
		switch {
		case err != nil:
			return f, err
		case op == opText:
			return f, json.Unmarshal(data, &f)
		case op == opPing:
			err = d.send(opPong, data)
		case op == opClose:
			err = io.EOF
		}
		if err != nil {
			return f, err
		}
	}
}

func (d *device) read() (op byte, data []byte, err error) {
	var head [8]byte
	if _, err = io.ReadFull(d.in, head[:2]); err != nil {
		return 0, nil, err
	}
	op, size := head[0]&15, uint64(head[1])
	switch size {
	case 126:
		_, err = io.ReadFull(d.in, head[:2])
		size = uint64(binary.BigEndian.Uint16(head[:2]))
	case 127:
		_, err = io.ReadFull(d.in, head[:8])
		size = binary.BigEndian.Uint64(head[:8])
	}
	if err != nil {
		return 0, nil, err
	}
	data = make([]byte, size)
	_, err = io.ReadFull(d.in, data)
	return op, data, err
}

// send writes a short frame, masked with zeroes.
func (d *device) send(op byte, data []byte) error {
	_, err := d.conn.Write(append([]byte{0x80 | op, 0x80 | byte(len(data)), 0, 0, 0, 0}, data...))
	return err
}

// follow notes what comes until the socket ends, or a message says to leave.
func (d *device) follow() {
	defer d.conn.Close()
	for {
		f, err := d.next()
		if err != nil {
			return
		}
		if f.Type != schema.TypeRecv {
			continue
		}
		_, number, _ := strings.Cut(f.ID, "-")
		n, _ := strconv.Atoi(number)
		d.list.mu.Lock()
		d.list.got = append(d.list.got, n)
		if f.Payload.Leave {
			d.list.left = n
		}
		d.list.mu.Unlock()
		if f.Payload.Leave || f.Ack != 0 && d.send(opText, fmt.Appendf(nil, `{"type":"ack","acks":[%d]}`, f.Ack)) != nil {
			return
		}
	}
}
