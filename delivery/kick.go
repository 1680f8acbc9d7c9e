package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// KickRequest says whose sessions are to go; without a filter all of the uid's.
type KickRequest = schema.KickCall

// Kicked tells what became of one session that was to go.
type Kicked struct {
	Route  *schema.Route
	Result schema.KickResult
}

// kickRounds bounds how often a kick is repeated that went out under an overtaken fence.
const kickRounds = 3

// Kick closes the sessions of a user that the request means, with code 3505, and tells what became
// of each. With a token id it is Revoke, whose errors it gives: uid, device and reason may go with
// that, nothing else. The error is schema.ErrBad for a request that was not carried out,
// ErrUnknownUser where nobody can tell which sessions there are, or says that the mesh can never
// be asked. ErrUnknownUser with results says that those are not all there may be, since the user's
// slot is being rebuilt: the same call says in a moment that it had them all.
func (d *Delivery) Kick(ctx context.Context, req KickRequest) ([]Kicked, error) {
	pick, err := newPick(req)
	if err != nil {
		return nil, err
	}
	if req.TokenID != "" {
		return d.Revoke(ctx, RevokeRequest{UID: req.UID, Device: req.Device, TokenID: req.TokenID, Reason: req.Reason})
	}
	var all []Kicked
	for round := 1; ; round++ {
		found, err := d.lookup(ctx, []schema.UID{req.UID}, 0)
		if err != nil {
			return nil, err
		}
		if found[0].State == schema.Unknown {
			return nil, fmt.Errorf("%w: %q is %s", ErrUnknownUser, string(req.UID), found[0].Why)
		}
		kicked, stale := d.kick(ctx, &found[0], pick, req.Reason)
		if d.mesh.cache != nil {
			d.mesh.cache.forget(dropKicked, req.UID)
		}
		if len(stale) == 0 || round == kickRounds {
			all = append(append(all, kicked...), stale...)
			d.meter.kicked(all)
			if found[0].Partial && !pick.found(all) {
				err = fmt.Errorf("%w: %q has %d sessions that are known, and its slot is %s", ErrUnknownUser, string(req.UID), len(all), client.WhyRebuilding)
			}
			return all, err
		}
		all = append(all, kicked...)
		pick.over(kicked)
	}
}

// pick says which routes a kick means.
type pick struct {
	filter
	only, except schema.SessionID
	ended        map[schema.SessionID]bool // by an earlier round
}

func newPick(req KickRequest) (pick, error) {
	p := pick{filter: filter{device: req.Device, flag: req.Flag}, only: req.Session, except: req.ExceptSession}
	if req.TokenID != "" && (req.Flag != "" || req.Session != "" || req.ExceptSession != "") {
		return p, bad("token_id: only uid, device and reason go with it")
	}
	if err := req.UID.Check(); err != nil {
		return p, bad("%w", err)
	}
	if err := checkReason(req.Reason); err != nil {
		return p, err
	}
	for _, s := range [...]schema.SessionID{req.Session, req.ExceptSession} {
		if _, _, ok := s.Parse(); s != "" && !ok {
			return p, bad("session %q is none of this mesh", string(s))
		}
	}
	return p, p.check()
}

func checkReason(reason string) error {
	if len(reason) > schema.MaxCloseReason || !utf8.ValidString(reason) {
		return bad("reason has %d bytes: at most %d of UTF-8 fit a close frame", len(reason), schema.MaxCloseReason)
	}
	return nil
}

func (p *pick) takes(r *schema.Route) bool {
	name := r.Session.Outside(r.Owner.Boot)
	return p.filter.takes(r) && (p.only == "" || p.only == name) && p.except != name && !p.ended[name]
}

// found reports whether the one session that is meant is among those kicked.
func (p *pick) found(kicked []Kicked) bool { return p.only != "" && len(kicked) > 0 }

// over has the next round leave out what this one has ended.
func (p *pick) over(kicked []Kicked) {
	if p.ended == nil {
		p.ended = map[schema.SessionID]bool{}
	}
	for _, k := range kicked {
		p.ended[k.Route.Session.Outside(k.Route.Owner.Boot)] = true
	}
}

// kick ends the sessions picked, owners side by side. Those in stale were left alone by owners that
// know of a later authority of the slot than the one that told of them.
func (d *Delivery) kick(ctx context.Context, f *Found, p pick, reason string) (kicked, stale []Kicked) {
	by := map[schema.Process][]*schema.Route{}
	for i := range f.Routes {
		if r := &f.Routes[i]; p.takes(r) {
			by[r.Owner] = append(by[r.Owner], r)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for owner, routes := range by {
		wg.Go(func() {
			codes, err := d.kickAt(ctx, owner, f, routes, cmp.Or(reason, schema.CloseRemoved.Meaning()))
			mu.Lock()
			defer mu.Unlock()
			for i, r := range routes {
				if i < len(codes) && codes[i] == schema.CodeStale {
					stale = append(stale, Kicked{r, schema.KickUnknown})
					continue
				}
				kicked = append(kicked, Kicked{r, kickResult(codes, i, err)})
			}
		})
	}
	wg.Wait()
	slices.SortFunc(kicked, func(a, b Kicked) int { return a.Route.Order.Compare(b.Route.Order) })
	d.disownKicked(f, kicked)
	return kicked, stale
}

// kickAt asks one gateway process.
func (d *Delivery) kickAt(ctx context.Context, owner schema.Process, f *Found, routes []*schema.Route, why string) ([]schema.Code, error) {
	var codes []schema.Code
	for part := range slices.Chunk(routes, schema.MaxEntries) {
		entries := make([]schema.KickEntry, len(part))
		for i, r := range part {
			entries[i] = schema.KickEntry{UID: r.UID, Session: r.Session, Fence: f.Target.Fence, Close: schema.CloseRemoved, Why: why}
		}
		got, err := d.mesh.client.Kick(ctx, owner, entries)
		if codes = append(codes, got...); err != nil {
			return codes, err
		}
	}
	return codes, nil
}

func kickResult(codes []schema.Code, k int, err error) schema.KickResult {
	switch {
	case k < len(codes) && codes[k] == schema.CodeOK:
		return schema.KickClosed
	case k < len(codes) && codes[k] == schema.CodeUnknown:
		return schema.KickNoSession
	case k >= len(codes) && errors.Is(err, client.ErrGone):
		return schema.KickOwnerGone
	}
	return schema.KickUnknown
}
