package gateway

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Remembering revocations.
const (
	revokedFor  = 10 * time.Second // more than a login takes, so that one under way is refused too
	revokedMost = 65_536           // at a time; above it a revocation is not acknowledged, so it is repeated
	revokedPage = 1024             // sessions looked at under one lock of the registry
)

// revokedKey says whom a revocation means; an empty device or token is any.
type revokedKey struct {
	uid    schema.UID
	device schema.DeviceID
	token  string
}

// means reports whether a session is one of those.
func (k revokedKey) means(id *Identity) bool {
	return k.uid == id.UID && (k.device == "" || k.device == id.Device) && (k.token == "" || k.token == id.TokenID)
}

// revocation is one that is remembered.
type revocation struct {
	until time.Duration // by the gateway's clock
	e     ending
	ended []schema.Revoked // because of it, repeats included: an answer may get lost
}

// revocations are those that are remembered. The zero value remembers none.
type revocations struct {
	mu    sync.Mutex
	by    map[revokedKey]*revocation
	swept time.Duration // when what is over was thrown out
}

// remember takes note of a revocation, a repeated one for as long again; false where there is no
// room.
func (r *revocations) remember(k revokedKey, e ending, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(now)
	old := r.by[k]
	if old == nil {
		if len(r.by) >= revokedMost {
			return false
		}
		if r.by == nil {
			r.by = make(map[revokedKey]*revocation)
		}
		old = new(revocation)
		r.by[k] = old
	}
	old.until, old.e = now+revokedFor, e
	return true
}

// sweepLocked throws out what is over, at most once a second.
func (r *revocations) sweepLocked(now time.Duration) {
	if now-r.swept < time.Second {
		return
	}
	r.swept = now
	for k, one := range r.by {
		if one.until <= now {
			delete(r.by, k)
		}
	}
}

// ended adds sessions to those that a revocation has ended, and gives them all.
func (r *revocations) ended(k revokedKey, list []schema.Revoked) []schema.Revoked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.by[k]; one != nil {
		one.ended = append(one.ended, list...)
		list = slices.Clone(one.ended)
	}
	return list[:min(len(list), schema.MaxEntries)]
}

// meets tells how a session of id has to end, where it is revoked.
func (r *revocations) meets(id *Identity, now time.Duration) (e ending, revoked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.by) == 0 {
		return e, false
	}
	for _, device := range [...]schema.DeviceID{"", id.Device} {
		for _, token := range [...]string{"", id.TokenID} {
			if one := r.by[revokedKey{id.UID, device, token}]; one != nil && one.until > now {
				return one.e, true
			}
		}
	}
	return e, false
}

// serveRevoke ends the sessions that a revocation means, pending ones too. It is remembered before
// they are looked for, and a login is in the registry before it asks whether it is revoked: so none
// slips through between the two.
func (g *Gateway) serveRevoke(l *life, m *nats.Msg) {
	var req schema.Revoke
	answer := schema.RevokeAnswer{ProcessHead: g.head(l, m, &req)}
	if answer.Code == schema.CodeOK {
		k := revokedKey{req.UID, req.Device, req.TokenID}
		e := ending{code: closeCode(req.Close, schema.CloseRemoved), reason: req.Why}
		kept := g.revoked.remember(k, e, g.now())
		answer.Ended = g.revoked.ended(k, g.endRevoked(k, e))
		if !kept {
			answer.Code, answer.Why = schema.CodeUnavailable, "too many revocations to remember one more"
		}
	}
	g.answer(m, &answer)
}

func (g *Gateway) endRevoked(k revokedKey, e ending) (ended []schema.Revoked) {
	for after := schema.SessionNum(0); ; {
		page := g.registry.page(after, revokedPage)
		for _, s := range page {
			if k.means(s.proven()) && g.end(s, e) {
				ended = append(ended, schema.Revoked{Session: s.num, Device: s.who.Device, Flag: s.who.Flag})
			}
		}
		if len(page) < revokedPage {
			return ended
		}
		after = page[len(page)-1].num
	}
}

// turnedOut is how a login ends whose token is revoked.
func turnedOut(e ending) (string, ending) {
	e.reason = cmp.Or(e.reason, e.code.Meaning())
	return outcomeRevoked, e.withHint(schema.FrameNotAllowed, 0)
}
