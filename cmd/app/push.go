package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// PushCmd sends a message to users.
type PushCmd struct {
	Asking
	Args     []string        `arg:"" name:"uid" help:"Users, then the message as JSON; - reads the users from standard input, one a line."`
	Payload  string          `name:"payload" short:"p" placeholder:"TEXT" help:"The message, in the place of the last argument: JSON, or a text that is sent as a JSON string."`
	From     schema.UID      `name:"from" placeholder:"UID" help:"The sender that clients see."`
	ID       string          `name:"id" placeholder:"ID" help:"The message's id. Default: drawn."`
	Device   schema.DeviceID `name:"device" placeholder:"ID" help:"Only to this device."`
	Flag     schema.Flag     `name:"flag" placeholder:"NAME" help:"Only to devices with this flag."`
	Await    time.Duration   `name:"await" placeholder:"DURATION" help:"Wait so long for slots that are being rebuilt."`
	AckWait  time.Duration   `name:"ack-wait" placeholder:"DURATION" help:"Ask the devices to acknowledge, and wait so long for it, at most 30s."`
	Fallback string          `name:"fallback" placeholder:"NAME" help:"Publish to fallback.NAME what does not reach a user."`
}

// Run prints what became of the message, a line a device.
func (c *PushCmd) Run(s *session) error {
	names, payload, err := c.message()
	if err != nil {
		return err
	}
	uids, err := s.uids(names)
	if err != nil {
		return err
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	pushed, failed, err := c.push(a, uids, payload)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, pushed...)
	} else {
		err = printPushed(s, pushed)
	}
	if err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("fallback %s: the messages of %d users could not be published", c.Fallback, failed)
	}
	return unsure(pushed)
}

// message parts the users from the message. One that stands last must be JSON, so that a forgotten
// message does not make one of the last user.
func (c *PushCmd) message() (names []string, payload json.RawMessage, err error) {
	if c.Payload != "" {
		return c.Args, jsonOrText(c.Payload), nil
	}
	last := len(c.Args) - 1
	if last < 1 || !json.Valid([]byte(c.Args[last])) {
		return nil, nil, fmt.Errorf(`%w: the message comes last, as JSON: rollcall push alice '{"text":"hi"}' (or a text with --payload)`, errUsage)
	}
	return c.Args[:last], json.RawMessage(c.Args[last]), nil
}

// push asks as many calls as the users take, all with one message id; failed counts those whose
// fallback could not be published.
func (c *PushCmd) push(a *asker, uids []schema.UID, payload json.RawMessage) (pushed []schema.PushedReply, failed int, err error) {
	call := schema.PushCall{
		Payload: payload, From: c.From, ID: c.ID, Device: c.Device, Flag: c.Flag, AwaitMS: c.Await.Milliseconds(),
		AckWaitMS: c.AckWait.Milliseconds(), Fallback: c.Fallback,
	}
	for len(uids) > 0 {
		call.UIDs = uids[:min(len(uids), schema.MaxCallUIDs)]
		var reply schema.PushReply
		if err := a.call("push", call, &reply, c.Timeout+c.Await+c.AckWait); err != nil {
			return nil, 0, err
		}
		done, err := progress(reply.Next, len(call.UIDs))
		if err != nil {
			return nil, 0, fmt.Errorf("push: %w", err)
		}
		call.ID = reply.ID
		failed += reply.FallbackFailed
		pushed, uids = append(pushed, reply.Results...), uids[done:]
	}
	return pushed, failed, nil
}

// jsonOrText takes what is JSON as it is, and anything else as a JSON string.
func jsonOrText(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, _ := json.Marshal(text) // a string always encodes
	return b
}

func printPushed(s *session, pushed []schema.PushedReply) error {
	t := newTable(s.out, "UID", "STATE", "REACHED", "DEVICE", "RESULT", "NODE", "SESSION")
	for _, p := range pushed {
		if len(p.Routes) == 0 {
			t.row(p.UID, state(p.State, p.Why), yes(p.Reached), "", "", "", "")
		}
		for _, r := range p.Routes {
			t.row(p.UID, p.State, yes(p.Reached), r.Device, r.Result, r.Node, r.Session)
		}
	}
	return t.flush()
}

// state is a user's state, with why it is unknown.
func state(s schema.UserState, why string) string {
	if why == "" {
		return string(s)
	}
	return string(s) + " (" + why + ")"
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// unsure is errUnknown where a user was not reached for certain, nor surely left out.
func unsure(pushed []schema.PushedReply) error {
	n := 0
	for _, p := range pushed {
		lost := slices.ContainsFunc(p.Routes, func(r schema.RoutePushed) bool { return r.Result == schema.PushUnknown })
		if !p.Reached && (p.State == schema.Unknown || lost) {
			n++
		}
	}
	if n > 0 {
		return fmt.Errorf("%w: %d of %d users may or may not have the message", errUnknown, n, len(pushed))
	}
	return nil
}
