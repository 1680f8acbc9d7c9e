package client

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Explain asks the uid's authority, once, for at most 2 s, for all that it holds of a uid.
func (c *Client) Explain(ctx context.Context, uid schema.UID) (schema.Explanation, error) {
	var said schema.Explanation
	t, err := c.Target(ctx, subjects.SlotOf(uid))
	if err != nil {
		return said, err
	}
	var answer schema.ExplainAnswer
	req := &schema.Explain{Target: t, Seen: c.view.Highest(t.Slot), UID: uid}
	subject := c.config.Prefix.Authority(t.Authority, subjects.Explain)
	if err = c.exchange(ctx, subject, tryLong, req, &answer); err == nil {
		err = c.accept(t, &answer.Head)
	}
	c.judge(t, err)
	if err == nil {
		err = body(answer.Body, &said)
	}
	return said, err
}

// Status asks an authority process, once, for at most 2 s, for the state of its slots.
func (c *Client) Status(ctx context.Context, p schema.Process) (schema.StatusReport, error) {
	var said schema.StatusReport
	if err := c.started(ctx); err != nil {
		return said, err
	}
	var answer schema.StatusAnswer
	subject := c.config.Prefix.Authority(p, subjects.Status)
	err := c.exchange(ctx, subject, tryLong, &schema.Status{}, &answer)
	if err == nil {
		err = answered(answer.ProcessHead, p)
	}
	if err == nil {
		err = body(answer.Body, &said)
	}
	return said, err
}

func body(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return nil
}
