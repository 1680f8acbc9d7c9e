package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Sizes of a connection's buffers, in bytes. The library's frames go through bufio; net/http would
// lend 4 KiB each way to a hijacked connection. writeBuffer takes any control frame at once, which
// hold relies on.
const (
	readBuffer  = 512
	writeBuffer = 256
	maxHeldKeep = 64 << 10
)

// errBudget is returned when one message takes more bytes on the wire than a message may, such as
// by frames without end that carry nothing.
var errBudget = errors.New("message takes too many bytes")

// wire is the connection under a WebSocket. It lets one writer put many frames into one socket
// write, and bounds the time and bytes of one message:
//
//	writer: hold, frame, frame, frame, release   -> one write
//	reader: pong (a control frame, one Write)    -> with them, or alone
//
// What goes through Write is whole frames, from one hold to its release or from one Write to the
// next, so writes from outside a hold may fall between any two.
type wire struct {
	net.Conn
	early  []byte // came with the handshake; owned by the reader
	budget int    // bytes left for the message being read; negative: no message is; owned by the reader
	spent  bool   // a message has taken too many; what comes still is thrown away; owned by the reader

	mu     sync.Mutex
	held   []byte
	hold   bool
	ending bool // endBy was called: no deadline after it
}

var heldPool = sync.Pool{New: func() any { return new([]byte) }}

// Read reads what the client sent. Once a message has taken too many bytes it gives nothing more: the
// library stands in the middle of a frame, and would take what follows for another fault, and close
// before the client has read why.
func (w *wire) Read(p []byte) (int, error) {
	if w.spent {
		for {
			if _, err := w.read(p); err != nil {
				return 0, err
			}
		}
	}
	if w.budget == 0 {
		w.spent = true
		return 0, errBudget
	}
	if w.budget > 0 {
		p = p[:min(len(p), w.budget)]
	}
	n, err := w.read(p)
	if w.budget > 0 {
		w.budget -= n
	}
	return n, err
}

func (w *wire) read(p []byte) (int, error) {
	if len(w.early) > 0 {
		n := copy(p, w.early)
		w.early = w.early[n:]
		return n, nil
	}
	return w.Conn.Read(p)
}

// Write writes, or keeps what it is given until release.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.hold {
		w.held = append(w.held, p...)
		w.mu.Unlock()
		return len(p), nil
	}
	w.mu.Unlock()
	return w.Conn.Write(p)
}

// holdWrites makes Write keep what it is given.
func (w *wire) holdWrites() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = true
	w.held = (*heldPool.Get().(*[]byte))[:0]
}

// release writes what was kept, in one write that ends within the time given. The library bounds
// the writes of its own.
func (w *wire) release(within time.Duration) error {
	w.mu.Lock()
	held := w.held
	w.held, w.hold = nil, false
	w.mu.Unlock()
	w.writeBy(time.Now().Add(within))
	_, err := w.Conn.Write(held)
	w.writeBy(time.Time{})
	if cap(held) <= maxHeldKeep {
		heldPool.Put(&held)
	}
	return err
}

// readBy bounds the reads to come; the zero time ends the bound.
func (w *wire) readBy(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ending {
		w.Conn.SetReadDeadline(t)
	}
}

func (w *wire) writeBy(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ending {
		w.Conn.SetWriteDeadline(t)
	}
}

// endBy bounds all that is still read and written: the connection is being closed.
func (w *wire) endBy(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	w.Conn.SetDeadline(t)
}

// upgrade is a ResponseWriter whose connection becomes a wire when it is hijacked.
type upgrade struct {
	http.ResponseWriter
	wire *wire // set by Hijack
}

// Hijack takes the connection over and gives it small buffers.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, brw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.wire = &wire{Conn: conn, budget: -1}
	if n := brw.Reader.Buffered(); n > 0 {
		u.wire.early = make([]byte, n)
		if _, err := io.ReadFull(brw.Reader, u.wire.early); err != nil {
			return nil, nil, err
		}
	}
	return u.wire, bufio.NewReadWriter(bufio.NewReaderSize(u.wire, readBuffer), bufio.NewWriterSize(u.wire, writeBuffer)), nil
}
