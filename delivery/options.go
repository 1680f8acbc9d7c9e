package delivery

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// CallOption sets one thing of one call.
type CallOption func(*call)

// call is what the options of one call say.
type call struct {
	await    time.Duration
	filter   filter
	except   *schema.Except
	ackWait  time.Duration
	fallback string
	room     func([]PushedUser) (int, error) // how many of the first may be pushed to; nil: all
}

// maxAwait bounds AwaitFresh.
const maxAwait = schema.MaxAwaitMS * time.Millisecond

// AwaitFresh has Lookup and Push wait, at most so long and never over 30 s, until nothing that
// they learn comes from a slot that is rebuilding, unowned or unreachable.
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

// AckWait would have Push wait for the devices' acknowledgements: ErrUnsupported in this version.
func AckWait(most time.Duration) CallOption { return func(c *call) { c.ackWait = most } }

// Fallback would publish what was not reached: ErrUnsupported in this version.
func Fallback(name string) CallOption { return func(c *call) { c.fallback = name } }

func newCall(options []CallOption) (*call, error) {
	c := new(call)
	for _, o := range options {
		o(c)
	}
	switch {
	case c.ackWait != 0:
		return nil, unsupported("ack_wait_ms", "devices can be asked to acknowledge, but nobody waits for it yet")
	case c.fallback != "":
		return nil, unsupported("fallback", "what is not reached is in the answer")
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
