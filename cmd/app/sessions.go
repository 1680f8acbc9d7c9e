package app

import (
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// SessionsCmd lists the sessions of a gateway.
type SessionsCmd struct {
	Asking
	Node    schema.NodeID    `arg:"" optional:"" help:"The gateway's node; may be left out with --session."`
	Session schema.SessionID `name:"session" placeholder:"ID" help:"Only this one."`
	Limit   int              `name:"limit" default:"0" help:"Print at most so many. Default: all."`
}

// Run prints a line for each session, as the gateway itself tells of them, page by page.
func (c *SessionsCmd) Run(s *session) error {
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	all, err := c.pages(a)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, all...)
	}
	t := newTable(s.out, "UID", "DEVICE", "FLAG", "LEVEL", "LISTENER", "CONNECTED", "ACTIVE", "TTL", "SESSION")
	for _, r := range all {
		t.row(r.UID, r.Device, r.Flag, r.Level, r.Listener, ago(r.ConnectedMS), ago(r.ActiveMS), ago(r.TTLMS), r.Session)
	}
	return t.flush()
}

// pages asks for one page after the other.
func (c *SessionsCmd) pages(a *asker) (all []schema.SessionReply, err error) {
	call := schema.SessionsCall{Node: c.Node, Session: c.Session}
	for {
		if c.Limit > 0 {
			call.Limit = min(c.Limit-len(all), schema.MaxSessions)
		}
		var reply schema.SessionsReply
		if err := a.call("sessions", call, &reply, max(c.Timeout, time.Second)); err != nil {
			return nil, err
		}
		all = append(all, reply.Results...)
		if call.Cursor = reply.Cursor; call.Cursor == "" || c.Limit > 0 && len(all) >= c.Limit {
			return all, nil
		}
	}
}
