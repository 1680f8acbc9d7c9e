package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

func (s *Service) push(ctx context.Context, body []byte) ([]byte, error) {
	var req schema.PushCall
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	c, m, err := s.pushCall(&req)
	if err != nil {
		return nil, err
	}
	pushed, err := s.d.push(ctx, m, req.UIDs, c)
	if err != nil {
		return nil, err
	}
	if req.Report == schema.ReportCounts {
		return json.Marshal(counts(pushed))
	}
	reply := pushReply(pushed, len(req.UIDs), req.Report == schema.ReportUnreached)
	text, err := json.Marshal(reply)
	if err == nil && len(text) > s.room()+headroom {
		shorten(reply.Results)
		text, err = json.Marshal(reply)
	}
	return text, err
}

// shorten leaves out the routes of the reached. It is needed where the cache told of fewer devices
// than there were in the end, so that pushRoom could not foresee the answer's size: what was done is
// told all the same.
func shorten(results []schema.PushedReply) {
	for i := range results {
		if results[i].Reached {
			results[i].Routes = []schema.RoutePushed{}
		}
	}
}

// pushCall checks a request and gives what it means.
func (s *Service) pushCall(req *schema.PushCall) (*call, Message, error) {
	m := Message{ID: req.ID, From: req.From, Payload: req.Payload, Ack: req.Ack}
	await, err := checkCall(req.UIDs, req.AwaitMS)
	if err != nil {
		return nil, m, err
	}
	if req.AckWaitMS < 0 || req.AckWaitMS > schema.MaxAckMS {
		return nil, m, bad("ack_wait_ms is %d: it takes 0 to %d", req.AckWaitMS, schema.MaxAckMS)
	}
	options := []CallOption{AwaitFresh(await), ToDevice(req.Device), ToFlag(req.Flag), AckWait(time.Duration(req.AckWaitMS) * time.Millisecond)}
	if req.Fallback != "" {
		options = append(options, Fallback(req.Fallback))
	}
	if req.Except != nil {
		options = append(options, Except(*req.Except))
	}
	c, err := newCall(s.d.s.prefix, options)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, m, err
	}
	switch req.Report {
	case "", schema.ReportFull, schema.ReportUnreached:
		c.room = s.pushRoom
	case schema.ReportCounts:
	default:
		err = bad("report %q is none of full, unreached and counts", string(req.Report))
	}
	return c, m, err
}

// pushRoom gives how many of the first users may be pushed to, so that the answer fits a message
// whatever becomes of them: what could not be told is not done, and next names it.
func (s *Service) pushRoom(users []PushedUser) (int, error) {
	size, room := 0, s.room()
	for i := range users {
		if size += replySize(&users[i]); size > room {
			if i == 0 {
				return 0, fmt.Errorf("%w: %q has too many devices for one answer of this NATS server", ErrTooLarge, string(users[i].UID))
			}
			return i, nil
		}
	}
	return len(users), nil
}

// replySize bounds the JSON of a user's results, in bytes. JSON takes at most six a byte.
func replySize(u *PushedUser) int {
	const user, route = 96, 80 // names of fields, punctuation, state and why, result
	size := user + 6*len(u.UID)
	for i := range u.Routes {
		r := u.Routes[i].Route
		size += route + len(r.Owner.Node) + len(r.Owner.Boot) + 14 + 6*len(r.Device)
	}
	return size
}

func pushReply(p *Pushed, asked int, unreachedOnly bool) schema.PushReply {
	reply := schema.PushReply{ID: p.ID, Results: []schema.PushedReply{}, FallbackFailed: p.FallbackFailed}
	for i := range p.Users {
		u := &p.Users[i]
		if u.Reached && unreachedOnly {
			continue
		}
		routes := make([]schema.RoutePushed, len(u.Routes))
		for k, r := range u.Routes {
			routes[k] = schema.RoutePushed{Node: r.Route.Owner.Node, Session: r.Route.Session.Outside(r.Route.Owner.Boot),
				Device: r.Route.Device, Result: r.Result}
		}
		reply.Results = append(reply.Results, schema.PushedReply{UID: u.UID, Reached: u.Reached, State: u.State, Why: u.Why, Routes: routes})
	}
	if len(p.Users) < asked {
		reply.Next = len(p.Users)
	}
	return reply
}

func counts(p *Pushed) schema.PushCounts {
	c := schema.PushCounts{ID: p.ID, FallbackFailed: p.FallbackFailed}
	for i := range p.Users {
		switch u := &p.Users[i]; {
		case u.Reached:
			c.Reached++
		case u.uncertain():
			c.Unknown++
		default:
			c.Unreached++
		}
	}
	return c
}
