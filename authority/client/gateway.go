package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// A gateway is gone when a request has met nobody so often, so far apart.
const (
	goneTries = 3
	goneApart = 100 * time.Millisecond
)

// Kick asks a gateway process, once, for at most 400 ms, to end sessions: at most
// schema.MaxEntries, a code each. ErrGone is proof that p and all its sessions are gone: its key
// is dead or says another boot, and nothing was sent; or nobody was there three times, 100 ms
// apart. Any other error proves nothing. Without entries it asks whether p is there.
func (c *Client) Kick(ctx context.Context, p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	var answer schema.KickAnswer
	subject, req := c.config.Prefix.Kick(p), &schema.Kick{To: p, Entries: e}
	err := c.toGateway(ctx, p, func() error {
		return c.exchange(ctx, subject, tryKick, req, &answer)
	})
	return each(err, answer.ProcessHead, p, answer.Results, len(e))
}

// Push brings one message to a gateway process, once, for at most 2 s, and gives a result for each
// recipient of each frame. ErrGone is proof as with Kick; any other error leaves open what was
// delivered.
func (c *Client) Push(ctx context.Context, m *schema.Push) ([]schema.PushResult, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	var answer schema.PushAnswer
	want, _ := wanted(m)
	subject := c.config.Prefix.Push(m.To)
	err := c.toGateway(ctx, m.To, func() error {
		return c.exchange(ctx, subject, tryLong, m, &answer)
	})
	return each(err, answer.ProcessHead, m.To, answer.Results, want)
}

// toGateway makes an exchange with a gateway process. It repeats only what met nobody, which
// nobody has seen, until that proves that the process is gone.
func (c *Client) toGateway(ctx context.Context, p schema.Process, exchange func() error) error {
	for try := 1; ; try++ {
		if c.view.Standing(lease.Gateway, p) == lease.Gone {
			return fmt.Errorf("%w: %s by its key", ErrGone, p)
		}
		err := exchange()
		if !errors.Is(err, ErrNoResponders) {
			return err
		}
		if try == goneTries {
			return fmt.Errorf("%w: %s, met by nobody %d times", ErrGone, p, try)
		}
		if err := lease.Wait(ctx, goneApart); err != nil {
			return err
		}
	}
}

// each gives the results of an exchange with p, when they are there and as many as wanted.
func each[R any](err error, h schema.ProcessHead, p schema.Process, list []R, want int) ([]R, error) {
	if err == nil {
		err = answered(h, p)
	}
	if err == nil && len(list) != want {
		err = misfit(len(list), want)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}
