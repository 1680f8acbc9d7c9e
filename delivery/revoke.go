package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Times of a revocation: an unanswered one is repeated after the first, doubling up to the last.
const (
	revokeFirst = 250 * time.Millisecond
	revokeLast  = 2 * time.Second
	// revokeWait bounds one asked for over the service, whose callers wait 5 s or more: a gateway
	// that was killed stands in the bucket until its lease ends.
	revokeWait = 3 * time.Second
)

// revokeAnswers bounds the answers not yet read; what is more is dropped, and its gateway asked again.
const revokeAnswers = 1024

// RevokeRequest says whose sessions end, and whose logins are refused for 10 s: those of the user,
// of one device, with one token, or both.
type RevokeRequest struct {
	UID     schema.UID
	Device  schema.DeviceID
	TokenID string // as the token said it: jti, or token_id of auth.connect
	Reason  string // what the client is told
}

// UnansweredError is returned with results when gateways that live have not answered in time: what
// was revoked may go on there.
type UnansweredError struct{ Gateways []schema.NodeID }

func (e *UnansweredError) Error() string {
	names := make([]string, len(e.Gateways))
	for i, node := range e.Gateways {
		names[i] = string(node)
	}
	return "no answer from " + strings.Join(names, ", ")
}

// Revoke ends sessions on every gateway with 3505, those that are being logged in too, and has each
// gateway refuse what matches for 10 s. It asks again until every living gateway has answered, or
// ctx ends: give it a deadline, since a gateway that was killed counts as living until its lease
// has ended. The error is schema.ErrBad for a request that is none, or an UnansweredError beside
// the sessions that the others have ended.
func (d *Delivery) Revoke(ctx context.Context, req RevokeRequest) ([]Kicked, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	m, err := d.ready(ctx)
	if err != nil {
		return nil, err
	}
	body, err := schema.Marshal(&schema.Revoke{
		UID: req.UID, Device: req.Device, TokenID: req.TokenID, Close: schema.CloseRemoved,
		Why: cmp.Or(req.Reason, schema.CloseRemoved.Meaning()),
	})
	if err != nil {
		return nil, bad("%w", err)
	}
	answered, err := d.revokeEverywhere(ctx, m, body)
	if m.cache != nil {
		m.cache.forget(dropKicked, req.UID)
	}
	var all []Kicked
	for owner, list := range answered {
		for _, one := range list {
			all = append(all, Kicked{&schema.Route{UID: req.UID, Owner: owner, Session: one.Session, Device: one.Device, Flag: one.Flag}, schema.KickClosed})
		}
	}
	slices.SortFunc(all, func(a, b Kicked) int {
		return cmp.Or(cmp.Compare(a.Route.Owner.Node, b.Route.Owner.Node), cmp.Compare(a.Route.Session, b.Route.Session))
	})
	d.meter.kicked(all)
	return all, err
}

func (r *RevokeRequest) check() error {
	if err := cmp.Or(r.UID.Check(), r.Device.Check()); err != nil {
		return bad("%w", err)
	}
	if len(r.TokenID) > schema.MaxTokenID {
		return bad("token_id has %d bytes: it takes at most %d", len(r.TokenID), schema.MaxTokenID)
	}
	return checkReason(r.Reason)
}

// revokeEverywhere tells all gateways, again and again, until those that live have answered.
func (d *Delivery) revokeEverywhere(ctx context.Context, m *mesh, body []byte) (map[schema.Process][]schema.Revoked, error) {
	answered := make(map[schema.Process][]schema.Revoked)
	inbox, messages := d.nc.NewInbox(), make(chan *nats.Msg, revokeAnswers)
	sub, err := d.nc.ChanSubscribe(inbox+".*", messages)
	if err != nil {
		return nil, fmt.Errorf("revoke: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a connection that has closed has none
	for round, pause := 0, revokeFirst; ; round, pause = round+1, min(2*pause, revokeLast) {
		// Each round has its own reply subject: what a gateway may answer is counted by it.
		err := d.nc.PublishRequest(d.s.prefix.Revoke(), inbox+"."+strconv.Itoa(round), body)
		within, cancel := context.WithTimeout(ctx, pause)
		missing := m.collect(within, messages, answered)
		if err != nil {
			<-within.Done() // NATS is not there
		}
		cancel()
		switch over := ctx.Err() != nil || d.life.Err() != nil; {
		case len(missing) == 0 && (err == nil || over):
			return answered, err
		case over:
			return answered, errors.Join(&UnansweredError{missing}, err)
		}
	}
}

// collect takes answers until none is missing or ctx ends, and gives the nodes of those that are.
func (m *mesh) collect(ctx context.Context, messages <-chan *nats.Msg, answered map[schema.Process][]schema.Revoked) []schema.NodeID {
	for {
		missing := m.unanswered(answered)
		if len(missing) == 0 {
			return nil
		}
		select {
		case msg := <-messages:
			var a schema.RevokeAnswer
			if schema.Unmarshal(msg.Data, &a) == nil && a.Code == schema.CodeOK {
				answered[a.From] = a.Ended
			}
		case <-ctx.Done():
			return missing
		}
	}
}

// unanswered lists the nodes of living gateways that are not in answered.
func (m *mesh) unanswered(answered map[schema.Process][]schema.Revoked) (missing []schema.NodeID) {
	for _, g := range m.view.Members(lease.Gateway) {
		if _, ok := answered[g.Process]; !ok && g.Alive() {
			missing = append(missing, g.Process.Node)
		}
	}
	slices.Sort(missing)
	return missing
}
