package gateway

import (
	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// serveSessions answers which sessions are here: a page of the active ones, or the one asked for.
func (g *Gateway) serveSessions(l *life, m *nats.Msg) {
	var req schema.Sessions
	answer := schema.SessionsAnswer{ProcessHead: g.head(l, m, &req)}
	if answer.Code == schema.CodeOK && req.To != l.me {
		answer.ProcessHead = wrongProcess(l)
	}
	if answer.Code == schema.CodeOK {
		g.listSessions(l, &req, &answer)
	}
	g.answer(m, &answer)
}

func (g *Gateway) listSessions(l *life, req *schema.Sessions, answer *schema.SessionsAnswer) {
	var page []*session
	if req.Only != 0 {
		if s := g.registry.find(req.Only); s != nil {
			page = append(page, s)
		}
	} else {
		limit := min(max(int(req.Limit), 1), schema.MaxSessions)
		page = g.registry.page(req.After, limit)
		if len(page) == limit {
			answer.Next = page[limit-1].num
		}
	}
	ttl := g.view.Config().TTL()
	for _, s := range page {
		if s.current() != active {
			continue
		}
		r := s.route(l.me, s.latestSeq())
		r.TTL = max(0, ttl-r.Idle)
		answer.Routes = append(answer.Routes, r)
	}
}

// latestSeq is the last seq that the session has drawn; 0 in a life in which it has drawn none.
func (s *session) latestSeq() schema.OwnerSeq {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seqs) == 0 {
		return 0
	}
	return s.seqs[len(s.seqs)-1]
}
