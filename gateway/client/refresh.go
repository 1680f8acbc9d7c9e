package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// refreshLeast is the shortest wait between two refreshes.
const refreshLeast = time.Second

// refreshWait gives how long to wait with a token that is good for left: until before its end, or
// later, spread over half of that by chance (0 to 1), so that clients whose tokens end at one moment
// do not all come at once. A token that does not last so long is kept for half its time.
func refreshWait(left, before time.Duration, chance float64) time.Duration {
	spread := before - time.Duration(chance*float64(before)/2)
	return max(left-spread, left/2, refreshLeast)
}

// keepFresh gives the session new tokens in time, until ctx ends. What fails is tried again, in half
// of the time that is left; a gateway that knows no refresh is not asked again.
func (s *session) keepFresh(ctx context.Context) {
	before := s.client.cfg.RefreshBefore
	for {
		ends := s.info().ExpiresAt
		if ends.IsZero() {
			return
		}
		select {
		case <-time.After(refreshWait(time.Until(ends), before, rand.Float64())):
		case <-ctx.Done():
			return
		}
		if time.Now().After(ends) {
			return // the gateway says so too
		}
		err := s.refresh(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() == nil {
			s.log.Warn("token not refreshed", "err", err)
		}
		if errors.Is(err, schema.FrameUnsupported) {
			return
		}
	}
}

// refresh fetches a token and makes it the session's, and that of the sessions to come.
func (s *session) refresh(ctx context.Context) error {
	c := s.client
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	token, err := c.cfg.Token(ctx)
	if err != nil {
		return err
	}
	f, err := s.request(ctx, c.id(schema.ClientFrame{Type: schema.TypeRefresh, Token: token}))
	if err != nil {
		return err
	}
	c.token = token
	s.extend(f)
	return nil
}

// extend takes the new end from a refreshed frame.
func (s *session) extend(f schema.ServerFrame) {
	for {
		old := s.state.Load()
		info := *old
		info.ExpiresAt = expiry(f)
		if s.state.CompareAndSwap(old, &info) {
			return
		}
	}
}
