package app

import (
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
)

// KickCmd ends sessions of a user.
type KickCmd struct {
	Asking
	UID     schema.UID       `arg:"" name:"uid" help:"The user. Without filters all sessions go."`
	Device  schema.DeviceID  `name:"device" placeholder:"ID" help:"Only this device."`
	Flag    schema.Flag      `name:"flag" placeholder:"NAME" help:"Only devices with this flag."`
	Session schema.SessionID `name:"session" placeholder:"ID" help:"Only this session."`
	Except  schema.SessionID `name:"except-session" placeholder:"ID" help:"Not this session."`
	TokenID string           `name:"token-id" placeholder:"ID" help:"Only sessions with this token, which no gateway takes for the next 10 s."`
	Reason  string           `name:"reason" placeholder:"TEXT" help:"What the client is told."`
}

// Run prints what became of each session that was meant.
func (c *KickCmd) Run(s *session) error {
	if err := c.UID.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	reply, err := query[schema.KickReply](s, "kick", schema.KickCall{
		UID: c.UID, Device: c.Device, Flag: c.Flag, Session: c.Session, TokenID: c.TokenID, ExceptSession: c.Except, Reason: c.Reason,
	}, c.Timeout)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, reply.Results...)
	} else {
		t := newTable(s.out, "DEVICE", "RESULT", "NODE", "SESSION")
		for _, r := range reply.Results {
			t.row(r.Device, r.Result, r.Node, r.Session)
		}
		err = t.flush()
	}
	if err != nil {
		return err
	}
	if len(reply.Unanswered) > 0 {
		return fmt.Errorf("%w: no answer from %s, where the token may still be in use", errUnknown, join(reply.Unanswered))
	}
	for _, r := range reply.Results {
		if r.Result == schema.KickUnknown {
			return fmt.Errorf("%w: session %s", errUnknown, r.Session)
		}
	}
	return nil
}
