package bubble

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

var errUnreachable = errors.New("host unreachable")

// wire is the near end of one connection over a link: what the process reads and writes.
//
//	process  Write -> split -> rules -> out -> carry -> far     the server's end
//	         Read  <- in    <- rules <- split <- fetch <- far
//
// carry and fetch are its two goroutines. A cut link stops carry, and Read from seeing in. No
// Write ever blocks: out grows without bound, and in as far as window allows, as a test is short.
type wire struct {
	l     *Link
	far   net.Conn
	frame framer
	// window bounds in, in bytes: beyond it fetch waits for the process to read, as TCP does, so
	// that a slow reader is felt at the far end. 0 = no bound.
	window int

	mu       sync.Mutex
	out, in  []byte
	halfOut  []byte // bytes of a frame that is not whole yet
	halfIn   []byte
	closed   bool // by the process
	dead     bool // by the far end, or by Reset
	reset    bool // by Reset: the process is told at once, also where the link is cut
	over     bool // nothing is carried any more
	deadline time.Time
	changed  chan struct{} // closed and replaced at each change of the above, or of the link
}

func (l *Link) open(far net.Conn, frame framer, window int) *wire {
	w := &wire{l: l, far: far, frame: frame, window: window, changed: make(chan struct{})}
	l.mu.Lock()
	l.wires[w] = struct{}{}
	l.mu.Unlock()
	go w.carry()
	go w.fetch()
	return w
}

func (w *wire) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked()
}

func (w *wire) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// carry brings out to the far end.
func (w *wire) carry() {
	defer w.end()
	for {
		cut := w.l.isCut()
		w.mu.Lock()
		b, closed, dead, changed := w.out, w.closed, w.dead, w.changed
		if !cut {
			w.out = nil
		}
		w.mu.Unlock()
		switch {
		case dead:
			w.far.Close()
			return
		case !cut && len(b) > 0:
			if _, err := w.far.Write(b); err != nil {
				w.kill()
				return
			}
		case !cut && closed:
			w.far.Close()
			return
		default:
			<-changed
		}
	}
}

// fetch brings what the far end sends into in. It reads on while the link is cut.
func (w *wire) fetch() {
	buf := make([]byte, 64<<10)
	for w.room() {
		n, err := w.far.Read(buf)
		if n > 0 {
			w.arrived(buf[:n])
		}
		if err != nil {
			w.mu.Lock()
			w.dead = true
			w.wakeLocked()
			w.mu.Unlock()
			return
		}
	}
}

// room waits until in is inside its window; false = the connection has ended.
func (w *wire) room() bool {
	for {
		w.mu.Lock()
		full, over, changed := w.window > 0 && len(w.in) >= w.window, w.dead || w.closed, w.changed
		w.mu.Unlock()
		if !full || over {
			return !w.isDead()
		}
		<-changed
	}
}

func (w *wire) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// end notes that nothing is carried any more. The link knows the wire until the process has closed it
// too: a heal has to tell a process that its connection has ended meanwhile.
func (w *wire) end() {
	w.mu.Lock()
	w.over = true
	closed := w.closed
	w.mu.Unlock()
	if closed {
		w.forget()
	}
}

func (w *wire) forget() {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	delete(w.l.wires, w)
}

// kill breaks the connection for both ends.
func (w *wire) kill() {
	w.mu.Lock()
	w.dead, w.reset = true, true
	w.wakeLocked()
	w.mu.Unlock()
	w.far.Close()
}

func (w *wire) arrived(b []byte) {
	w.mu.Lock()
	w.halfIn = append(w.halfIn, b...)
	whole, rest := w.split(w.halfIn)
	w.halfIn = rest
	w.mu.Unlock()
	for _, f := range whole {
		w.l.pass(f, In, w.receive)
	}
}

func (w *wire) receive(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in = append(w.in, b...)
	w.wakeLocked()
}

func (w *wire) send(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, b...)
	w.wakeLocked()
}

// Write takes b whole; what becomes of it the link decides.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	if w.closed || w.dead {
		w.mu.Unlock()
		return 0, net.ErrClosed
	}
	w.halfOut = append(w.halfOut, b...)
	whole, rest := w.split(w.halfOut)
	w.halfOut = rest
	w.mu.Unlock()
	for _, f := range whole {
		w.l.tap(&f)
		w.l.pass(f, Out, w.send)
	}
	return len(b), nil
}

// split cuts whole frames off b; they and the rest share no memory with it.
func (w *wire) split(b []byte) (whole []frame, rest []byte) {
	for len(b) > 0 {
		f, n := w.frame(b)
		if n == 0 {
			break
		}
		f.bytes = append([]byte(nil), b[:n]...)
		whole = append(whole, f)
		b = b[n:]
	}
	return whole, append([]byte(nil), b...)
}

// Read gives what has arrived, while the link is not cut.
func (w *wire) Read(b []byte) (int, error) {
	for {
		cut := w.l.isCut()
		w.mu.Lock()
		if !cut && len(w.in) > 0 && !w.closed {
			n := copy(b, w.in)
			w.in = w.in[n:]
			w.wakeLocked()
			w.mu.Unlock()
			return n, nil
		}
		closed, dead, deadline, changed := w.closed, w.reset || w.dead && !cut, w.deadline, w.changed
		w.mu.Unlock()
		if closed {
			return 0, net.ErrClosed
		}
		if dead {
			return 0, io.EOF
		}
		if !await(changed, deadline) {
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// await waits for a change; false = the deadline was first.
func await(changed <-chan struct{}, deadline time.Time) bool {
	if deadline.IsZero() {
		<-changed
		return true
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-changed:
		return true
	case <-t.C:
		return false
	}
}

// Close ends the process's end. The far end learns of it when the link is not cut.
func (w *wire) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		w.wakeLocked()
	}
	over := w.over
	w.mu.Unlock()
	if over {
		w.forget()
	}
	return nil
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	w.wakeLocked()
	return nil
}

func (w *wire) SetDeadline(t time.Time) error    { return w.SetReadDeadline(t) }
func (w *wire) SetWriteDeadline(time.Time) error { return nil } // writes never wait
func (w *wire) LocalAddr() net.Addr              { return w.far.RemoteAddr() }
func (w *wire) RemoteAddr() net.Addr             { return w.far.RemoteAddr() }
