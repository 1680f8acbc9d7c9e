package client

import (
	"context"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Sessions asks a gateway process, once, for at most 2 s, for a page of its sessions, or for one of
// them. ErrGone is proof as with Kick.
func (c *Client) Sessions(ctx context.Context, req *schema.Sessions) (*schema.SessionsAnswer, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	answer := new(schema.SessionsAnswer)
	subject := c.config.Prefix.Sessions(req.To)
	err := c.toGateway(ctx, req.To, func() error {
		return c.exchange(ctx, subject, tryLong, req, answer)
	})
	if err == nil {
		err = answered(answer.ProcessHead, req.To)
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}
