package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// The time one try may take; a request that got no answer in it is given up.
const (
	tryShort = 500 * time.Millisecond // register, commit, look-up
	tryKick  = 400 * time.Millisecond
	tryLong  = 2 * time.Second // unregister, touch, sync, remove, explain, status
)

// travel are the waits after which nobody is asked again at a fence that is new here: interest in
// it may not have come to our server yet (measured: one or two of these serve all).
var travel = [...]time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}

// requester is the one thing that is needed of a *nats.Conn.
type requester interface {
	RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
}

// exchange sends one request and reads its answer, once.
func (c *Client) exchange(ctx context.Context, subject string, try time.Duration, req, answer schema.Message) error {
	data, err := schema.Marshal(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errEncode, err)
	}
	msg, err := c.request(ctx, subject, try, data)
	if err != nil {
		return fmt.Errorf("%s to %s: %w", req.Kind(), subject, err)
	}
	if err := schema.Unmarshal(msg.Data, answer); err != nil {
		return fmt.Errorf("%w: %s to %s: %w", ErrAnswer, req.Kind(), subject, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, subject string, try time.Duration, data []byte) (*nats.Msg, error) {
	within, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	msg, err := c.nc.RequestWithContext(within, subject, data)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	return msg, nil
}

// failure says why a request within ctx got no answer, as errors of this package.
func (c *Client) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoResponders
	case c.life.Err() != nil:
		return ErrStopped
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return ErrTimeout
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	return err
}

// patiently repeats an exchange that met nobody while young says that interest may be on its way.
func patiently(ctx context.Context, young func() bool, exchange func() error) error {
	err := exchange()
	for _, wait := range travel {
		if !errors.Is(err, ErrNoResponders) || !young() || lease.Wait(ctx, wait) != nil {
			return err
		}
		err = exchange()
	}
	return err
}
