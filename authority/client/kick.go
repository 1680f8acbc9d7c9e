package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// A gateway is gone when it has met nobody so often, so far apart.
const (
	kickTries = 3
	kickApart = 100 * time.Millisecond
)

// Kick asks a gateway process, once, for at most 400 ms, to end sessions: at most
// schema.MaxEntries, a code each. ErrGone is proof that p and all its sessions are gone: its key
// is dead or says another boot, and nothing was sent; or nobody was there three times, 100 ms
// apart. Any other error proves nothing. Without entries it asks whether p is there.
func (c *Client) Kick(ctx context.Context, p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	req := &schema.Kick{To: p, Entries: e}
	for try := 1; ; try++ {
		if c.view.Standing(lease.Gateway, p) == lease.Gone {
			return nil, fmt.Errorf("%w: %s by its key", ErrGone, p)
		}
		var answer schema.KickAnswer
		err := c.exchange(ctx, c.config.Prefix.Kick(p), tryKick, req, &answer)
		if err == nil {
			err = answered(answer.ProcessHead, p)
		}
		switch {
		case err == nil && len(answer.Results) != len(e):
			return nil, misfit(len(answer.Results), len(e))
		case !errors.Is(err, ErrNoResponders):
			return answer.Results, err
		case try == kickTries:
			return nil, fmt.Errorf("%w: %s met by nobody %d times", ErrGone, p, try)
		}
		if err := sleep(ctx, kickApart); err != nil {
			return nil, err
		}
	}
}
