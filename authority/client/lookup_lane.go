package client

import (
	"context"
	"errors"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// whyStale marks, between two rounds of a look-up only, a uid that was answered by a wrong owner.
const whyStale = "stale"

// maxLookupAsks bounds the asks that wait for one authority; what comes then is unreachable.
const maxLookupAsks = 16384

// Bounds of one request. The uids' bytes stay below half of a message of 1 MiB.
const (
	maxRequestUIDs  = 8 * maxAsk
	maxRequestBytes = 512 << 10
)

type lookupLanes = Lanes[schema.Process, *ask]

func (c *Client) openLookups() {
	c.lookups = NewLanes(c, maxLookupAsks, takeAsks, c.carryLookup)
}

// takeAsks gives how many asks fit one request.
func takeAsks(waiting []*ask) int {
	uids, size := 0, 0
	for n, a := range waiting {
		uids += len(a.items)
		for _, it := range a.items {
			size += len(it.uid)
		}
		if n > 0 && (uids > maxRequestUIDs || size > maxRequestBytes) {
			return n
		}
	}
	return len(waiting)
}

// carryLookup asks one authority for all of a batch, in as many requests as the answers need.
func (c *Client) carryLookup(ctx context.Context, p schema.Process, batch []*ask) {
	places := order(batch)
	for len(places) > 0 {
		n := c.lookup(ctx, p, places)
		places = places[n:]
	}
	for _, a := range batch {
		a.done <- a
	}
}

// place is one uid of a request: an item of an ask.
type place struct {
	ask *ask
	at  int32 // in the ask's items
}

func (p place) item() *item { return &p.ask.items[p.at] }

func (p place) answer(f Found) { p.ask.found[p.item().at] = f }

func (p place) fail(why string) {
	p.answer(Found{UID: p.item().uid, State: schema.Unknown, Why: why})
}

// fail answers all of an ask and ends it.
func (a *ask) fail(why string) {
	for i := range a.items {
		place{a, int32(i)}.fail(why)
	}
	a.done <- a
}

// order puts the uids of a batch in the order of their slots, in time linear in both.
func order(batch []*ask) []place {
	var start [schema.Slots + 1]int32
	total := 0
	for _, a := range batch {
		total += len(a.items)
		for i := range a.items {
			start[a.items[i].slot+1]++
		}
	}
	for s := 1; s < len(start); s++ {
		start[s] += start[s-1]
	}
	places := make([]place, total)
	for _, a := range batch {
		for i := range a.items {
			slot := a.items[i].slot
			places[start[slot]] = place{a, int32(i)}
			start[slot]++
		}
	}
	return places
}

// lookup makes one request for places and fills in what was answered; it gives how many that
// were, at least 1.
func (c *Client) lookup(ctx context.Context, p schema.Process, places []place) int {
	c.counts.requests.Add(1)
	req := c.lookupRequest(p, places)
	places = places[:len(req.UIDs)]
	subject := c.config.Prefix.Authority(p, subjects.Lookup)
	var answer schema.LookupAnswer
	err := patiently(ctx, func() bool { return c.anyYoung(req) }, func() error {
		answer = schema.LookupAnswer{}
		return c.exchange(ctx, subject, tryShort, req, &answer)
	})
	if err == nil {
		err = answered(answer.ProcessHead, p)
	}
	if err == nil && (len(answer.Groups) != len(req.Groups) || len(answer.Counts) > len(places) || len(answer.Counts) == 0) {
		err = misfit(len(answer.Counts), len(places))
	}
	if err != nil {
		why := WhyUnreachable
		if errors.Is(err, ErrNoResponders) {
			why = whyStale
		} else {
			c.log.Debug("look-up failed", "authority", p, "uids", len(places), "err", err)
		}
		for i := range places {
			places[i].fail(why)
		}
		return len(places)
	}
	c.fill(req, &answer, places)
	return len(answer.Counts)
}

func (c *Client) anyYoung(req *schema.Lookup) bool {
	for i := range req.Groups {
		if c.young(req.Groups[i].Target) {
			return true
		}
	}
	return false
}

// lookupRequest groups places, which are in the order of their slots, as many as fit. A slot whose
// fence changed between two callers has two groups.
func (c *Client) lookupRequest(p schema.Process, places []place) *schema.Lookup {
	req := &schema.Lookup{UIDs: make([]schema.UID, len(places))}
	for i := range places {
		it := places[i].item()
		req.UIDs[i] = it.uid
		last := len(req.Groups) - 1
		if last < 0 || req.Groups[last].Target.Slot != it.slot || req.Groups[last].Target.Fence != it.fence {
			if len(req.Groups) == schema.Slots {
				req.UIDs = req.UIDs[:i]
				break
			}
			t := schema.Target{Slot: it.slot, Fence: it.fence, Authority: p}
			req.Groups = append(req.Groups, schema.LookupGroup{Target: t, Seen: c.view.Highest(it.slot)})
			last++
		}
		req.Groups[last].Count++
	}
	return req
}

// fill hands out the routes of an answer, as far as it goes.
func (c *Client) fill(req *schema.Lookup, answer *schema.LookupAnswer, places []place) {
	routes := answer.Routes
	at := 0
	for i := range req.Groups {
		why := c.groupWhy(req.Groups[i].Target, &answer.Groups[i])
		for range req.Groups[i].Count {
			if at == len(answer.Counts) {
				return
			}
			p := places[at]
			mine := routes[:answer.Counts[at]:answer.Counts[at]]
			routes = routes[len(mine):]
			at++
			if why != "" {
				p.fail(why)
				continue
			}
			p.answer(found(p.item().uid, &answer.Groups[i], mine))
		}
	}
}

// groupWhy decides whether a group's answer counts: "" when it does.
func (c *Client) groupWhy(t schema.Target, g *schema.GroupAnswer) string {
	c.saw(t.Slot, g.Seen, g.Target, g.Owner)
	switch err := g.Code.Err(); {
	case errors.Is(err, schema.ErrMismatch):
		return whyStale
	case err != nil:
		return WhyUnreachable
	case g.Target.Differs(t) != "", c.view.Highest(t.Slot) > t.Fence:
		return whyStale
	}
	return ""
}

func found(uid schema.UID, g *schema.GroupAnswer, routes []schema.Route) Found {
	f := Found{UID: uid, State: schema.Online, Partial: g.Rebuilding, Suspect: g.Suspect, Stamp: g.Stamp, Target: g.Target, Routes: routes}
	for i := range routes {
		routes[i].UID = uid
	}
	switch {
	case len(routes) > 0:
	case g.Rebuilding:
		f.State, f.Why = schema.Unknown, WhyRebuilding
	default:
		f.State = schema.Offline
	}
	return f
}
