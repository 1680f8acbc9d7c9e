package gateway

// outbox holds the encoded frames that wait for a session's writer. It is bounded: what does not
// fit is refused, and the sender told. Guarded by the session's mu.
type outbox struct {
	frames   [][]byte
	bytes    int
	presence bool // a presence frame is among them
}

// add queues a frame; false where the outbox is full. An empty outbox takes any one frame.
func (o *outbox) add(frame []byte, maxFrames, maxBytes int) bool {
	if n := len(o.frames); n > 0 && (n >= maxFrames || o.bytes+len(frame) > maxBytes) {
		return false
	}
	o.must(frame)
	return true
}

// must queues a frame, room or not: the one that a client has been waiting for.
func (o *outbox) must(frame []byte) {
	o.frames = append(o.frames, frame)
	o.bytes += len(frame)
}

// take empties the outbox and gives what was in it. Its memory is the caller's: an idle session
// keeps none.
func (o *outbox) take() [][]byte {
	frames := o.frames
	*o = outbox{}
	return frames
}
