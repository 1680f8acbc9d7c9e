package delivery

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// CallOption sets one thing of one call.
type CallOption func(*call)

// call is what the options of one call say.
type call struct {
	await     time.Duration
	filter    filter
	except    *schema.Except
	ackWait   time.Duration
	fallback  string // a name, then its subject
	fallsBack bool
	room      func([]PushedUser) (int, error) // how many of the first may be pushed to; nil: all
}

// maxAwait bounds AwaitFresh.
const maxAwait = schema.MaxAwaitMS * time.Millisecond

// AwaitFresh has Lookup and Push wait, at most so long and never over 30 s, until nothing that
// they learn comes from a slot that is rebuilding, unowned or unreachable. Push keeps the last of its
// caller's time for sending to those who are known.
func AwaitFresh(most time.Duration) CallOption {
	return func(c *call) { c.await = min(max(0, most), maxAwait) }
}

// ToDevice has Push reach one device of each recipient only.
func ToDevice(d schema.DeviceID) CallOption { return func(c *call) { c.filter.device = d } }

// ToFlag has Push reach devices of one class only.
func ToFlag(f schema.Flag) CallOption { return func(c *call) { c.filter.flag = f } }

// Except has Push skip exactly this session: usually the sender's, by the four fields of what it
// has sent.
func Except(e schema.Except) CallOption { return func(c *call) { c.except = &e } }

// AckWait has Push ask the devices to acknowledge, and wait for it, at most so long after the
// message was written, and never over schema.MaxAckWait or nine tenths of the caller's time: results then
// say acked where it was before written. A device that says nothing by then, or whose session ends, stays
// written.
func AckWait(most time.Duration) CallOption {
	return func(c *call) { c.ackWait = min(max(0, most), schema.MaxAckWait) }
}

// Fallback has Push publish, as a schema.Missed in JSON, what did not reach a user, once a user, on
// fallback.<name>, where a stream can keep it: the name takes letters, digits, _ and -. Who may
// have the message after all (unknown) is published too, so it can arrive twice, under one id.
func Fallback(name string) CallOption {
	return func(c *call) { c.fallback, c.fallsBack = name, true }
}

func newCall(prefix subjects.Prefix, options []CallOption) (*call, error) {
	c := new(call)
	for _, o := range options {
		o(c)
	}
	if c.fallsBack {
		subject, err := prefix.Fallback(c.fallback)
		if err != nil {
			return nil, bad("%w", err)
		}
		c.fallback = subject
	}
	if c.except != nil {
		boot, num, ok := c.except.Session.Parse()
		if !ok || boot != c.except.Boot {
			return nil, bad("except: session %q is none of boot %q", c.except.Session, c.except.Boot)
		}
		c.filter.skip = skip{c.except.UID, schema.Process{Node: c.except.Node, Boot: boot}, num}
	}
	return c, c.filter.check()
}
