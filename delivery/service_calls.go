package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

func (s *Service) lookup(ctx context.Context, body []byte) ([]byte, error) {
	var req schema.LookupCall
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	await, err := checkCall(req.UIDs, req.AwaitMS)
	if err != nil {
		return nil, err
	}
	found, err := s.d.Lookup(ctx, req.UIDs, AwaitFresh(await))
	if err != nil {
		return nil, err
	}
	var seen map[int]Seen
	if req.LastSeen {
		if seen, err = s.lastSeen(ctx, found); err != nil {
			return nil, err
		}
	}
	return page(len(found), s.room(), func(i int) schema.UserReply {
		u := userReply(&found[i])
		seen[i].show(&u)
		return u
	})
}

func userReply(f *Found) schema.UserReply {
	u := schema.UserReply{UID: f.UID, State: f.State, Partial: f.Partial, Suspect: f.Suspect, Why: f.Why,
		Routes: make([]schema.RouteReply, len(f.Routes))}
	if f.Stamp != (schema.Stamp{}) {
		u.Stamp = &f.Stamp
	}
	for i := range f.Routes {
		u.Routes[i] = schema.NewRouteReply(&f.Routes[i])
	}
	return u
}

func (s *Service) kick(ctx context.Context, body []byte) ([]byte, error) {
	var req schema.KickCall
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.TokenID != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, revokeWait)
		defer cancel()
	}
	kicked, err := s.d.Kick(ctx, req)
	missing, unanswered := errors.AsType[*UnansweredError](err)
	if err != nil && !unanswered {
		return nil, err
	}
	reply := schema.KickReply{Results: make([]schema.RouteKicked, len(kicked))}
	for i, k := range kicked {
		reply.Results[i] = schema.RouteKicked{Node: k.Route.Owner.Node, Session: k.Route.Session.Outside(k.Route.Owner.Boot),
			Device: k.Route.Device, Result: k.Result}
	}
	if unanswered {
		reply.Unanswered = missing.Gateways
	}
	return json.Marshal(reply)
}

func (s *Service) sessions(ctx context.Context, body []byte) ([]byte, error) {
	var req schema.SessionsCall
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	found, err := s.d.Sessions(ctx, req)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sessionsReply(&found, s.room()))
}

// sessionsReply gives as many sessions as fit room bytes; the cursor leads to the others.
func sessionsReply(found *SessionsPage, room int) schema.SessionsReply {
	reply := schema.SessionsReply{Node: found.Gateway.Node, Boot: found.Gateway.Boot, Cursor: found.Cursor, Results: []schema.SessionReply{}}
	size := 0
	for i := range found.Routes {
		one := schema.NewSessionReply(&found.Routes[i])
		if size += sessionSize(&one); size > room && i > 0 {
			reply.Cursor = string(reply.Results[i-1].Session)
			break
		}
		reply.Results = append(reply.Results, one)
	}
	return reply
}

// sessionSize bounds the JSON of a session, in bytes. JSON takes at most six a byte.
func sessionSize(r *schema.SessionReply) int {
	const rest = 256 // names of fields, punctuation, level, ages
	return rest + 6*(len(r.UID)+len(r.Device)) + len(r.Session) + len(r.Listener) + len(r.Flag)
}

func (s *Service) explain(ctx context.Context, body []byte) ([]byte, error) {
	var req schema.ExplainCall
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	return encode(s.d.Explain(ctx, req.UID))
}

func (s *Service) showSlots(ctx context.Context, body []byte) ([]byte, error) {
	if err := decode(body, &struct{}{}); err != nil {
		return nil, err
	}
	return encode(s.d.Slots(ctx))
}

func (s *Service) stats(ctx context.Context, body []byte) ([]byte, error) {
	if err := decode(body, &struct{}{}); err != nil {
		return nil, err
	}
	return encode(s.d.Stats(ctx))
}

func encode[T any](reply T, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

// checkCall checks what look-up and push have in common.
func checkCall(uids []schema.UID, awaitMS int64) (await time.Duration, err error) {
	switch {
	case len(uids) == 0:
		return 0, bad("uids names nobody: it takes 1 to %d", schema.MaxCallUIDs)
	case len(uids) > schema.MaxCallUIDs:
		return 0, fmt.Errorf("%w: %d uids: a call takes at most %d", ErrTooLarge, len(uids), schema.MaxCallUIDs)
	case awaitMS < 0 || awaitMS > schema.MaxAwaitMS:
		return 0, bad("await_ms is %d: it takes 0 to %d", awaitMS, schema.MaxAwaitMS)
	}
	return time.Duration(awaitMS) * time.Millisecond, checkUIDs(uids)
}
