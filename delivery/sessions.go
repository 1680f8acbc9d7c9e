package delivery

import (
	"context"
	"fmt"
	"slices"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// SessionsRequest names a gateway by its node, or one session, and a page.
type SessionsRequest = schema.SessionsCall

// SessionsPage is a page of a gateway's sessions, as the gateway itself tells of them.
type SessionsPage struct {
	Gateway schema.Process
	Routes  []schema.Route
	Cursor  string // of the next page; empty: this was the last
}

// defaultSessions is how many sessions a page has where nothing is said.
const defaultSessions = 500

// Sessions asks a gateway for a page of its active sessions, or for one of them: none where that one
// is not there. The error is schema.ErrBad for a request that is none or a cursor of an earlier
// life of the gateway, ErrNoGateway where none lives under that name, schema.ErrUnavailable where its key has
// gone with the bucket and may come back, or says why it did not answer.
func (d *Delivery) Sessions(ctx context.Context, req SessionsRequest) (SessionsPage, error) {
	ask, boot, err := sessionsAsked(req)
	if err != nil {
		return SessionsPage{}, err
	}
	m, err := d.ready(ctx)
	if err != nil {
		return SessionsPage{}, err
	}
	if ask.To, err = m.gatewayOf(req.Node, boot); err != nil {
		return SessionsPage{}, err
	}
	if req.Cursor != "" && boot != ask.To.Boot {
		return SessionsPage{}, bad("cursor is of an earlier life of gateway %s: begin anew", req.Node)
	}
	said, err := m.client.Sessions(ctx, ask)
	if err != nil {
		return SessionsPage{}, fmt.Errorf("sessions of %s: %w", ask.To, err)
	}
	page := SessionsPage{Gateway: ask.To, Routes: said.Routes}
	if said.Next != 0 {
		page.Cursor = string(said.Next.Outside(ask.To.Boot))
	}
	return page, nil
}

// sessionsAsked checks a request; boot is that of the session or cursor that it names.
func sessionsAsked(req SessionsRequest) (ask *schema.Sessions, boot schema.BootID, err error) {
	ask = &schema.Sessions{Limit: defaultSessions}
	switch {
	case req.Node == "" && req.Session == "":
		return nil, "", bad("node is missing")
	case req.Session != "" && req.Cursor != "":
		return nil, "", bad("cursor and session: there is no page behind one session")
	case req.Limit < 0 || req.Limit > schema.MaxSessions:
		return nil, "", bad("limit is %d: it takes 1 to %d", req.Limit, schema.MaxSessions)
	case req.Limit > 0:
		ask.Limit = uint32(req.Limit)
	}
	if req.Node != "" {
		if err := req.Node.Check(); err != nil {
			return nil, "", bad("%w", err)
		}
	}
	ok := true
	if req.Session != "" {
		if boot, ask.Only, ok = req.Session.Parse(); !ok {
			return nil, "", bad("session %q is none of this mesh", string(req.Session))
		}
	}
	if req.Cursor != "" {
		if boot, ask.After, ok = schema.SessionID(req.Cursor).Parse(); !ok {
			return nil, "", bad("cursor %q is none that was given out", req.Cursor)
		}
	}
	return ask, boot, nil
}

// gatewayOf gives the living gateway of a node; without a node, that of the boot. One whose key went with
// the bucket is not gone yet.
func (m *mesh) gatewayOf(node schema.NodeID, boot schema.BootID) (schema.Process, error) {
	meant := func(p schema.Process) bool { return p.Node == node || node == "" && p.Boot == boot }
	for _, g := range m.view.Members(lease.Gateway) {
		if g.Alive() && meant(g.Process) {
			return g.Process, nil
		}
	}
	if i := slices.IndexFunc(m.view.Missing(lease.Gateway), meant); i >= 0 {
		return schema.Process{}, fmt.Errorf("%w: the bucket has lost the key of the gateway, which may write it again", schema.ErrUnavailable)
	}
	if node == "" {
		return schema.Process{}, fmt.Errorf("%w: boot %s", ErrNoGateway, boot)
	}
	return schema.Process{}, fmt.Errorf("%w: %s", ErrNoGateway, node)
}
