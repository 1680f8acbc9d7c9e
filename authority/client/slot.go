package client

import (
	"context"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// What goes into one request at most. Logins and commits carry lists of conflicts, so fewer go
// together than schema allows: a request and its answer then fit a message of 1 MiB.
const (
	maxLogins = 128
	maxEnds   = 4096
)

// openLanes makes the lanes of the operations that callers bring one by one.
func (c *Client) openLanes() {
	one := func(schema.Login) int { return 1 }
	c.registers = newSlotLanes(c, maxLogins, one, c.sendRegister)
	ends := func(e schema.CommitEntry) int { return max(maxEnds/maxLogins, len(e.Ends)) }
	c.commits = newSlotLanes(c, maxEnds, ends, c.sendCommit)
	leave := func(schema.Leave) int { return 1 }
	c.leaves = newSlotLanes(c, schema.MaxEntries, leave, c.sendUnregister)
}

// Register asks t to add one route, once, for at most 500 ms; the route's owner is the sender.
// Logins that wait for one target go together. A nil error says that the login was judged: see the
// result's code. The error of a refused request is a *Refusal.
func (c *Client) Register(ctx context.Context, t schema.Target, l schema.Login) (schema.LoginResult, error) {
	out, err := ride(ctx, c.registers, slotKey{t, l.Route.Owner}, []schema.Login{l})
	if err != nil {
		return schema.LoginResult{}, err
	}
	return out[0], nil
}

func (c *Client) sendRegister(ctx context.Context, k slotKey, logins []schema.Login) ([]schema.LoginResult, error) {
	var answer schema.RegisterAnswer
	req := &schema.Register{Head: c.head(k), Logins: logins}
	err := c.toOwner(ctx, k.target, subjects.Register, req, &answer, &answer.Head)
	return answer.Results, err
}

// Commit asks t, once, for at most 500 ms, to make a pending login visible.
func (c *Client) Commit(ctx context.Context, t schema.Target, from schema.Process, e schema.CommitEntry) (schema.LoginResult, error) {
	out, err := ride(ctx, c.commits, slotKey{t, from}, []schema.CommitEntry{e})
	if err != nil {
		return schema.LoginResult{}, err
	}
	return out[0], nil
}

func (c *Client) sendCommit(ctx context.Context, k slotKey, entries []schema.CommitEntry) ([]schema.LoginResult, error) {
	var answer schema.CommitAnswer
	req := &schema.Commit{Head: c.head(k), Entries: entries}
	err := c.toOwner(ctx, k.target, subjects.Commit, req, &answer, &answer.Head)
	return answer.Results, err
}

// Unregister tells t, once, for at most 2 s, that sessions have ended: at most schema.MaxEntries a
// call, a code each.
func (c *Client) Unregister(ctx context.Context, t schema.Target, from schema.Process, e []schema.Leave) ([]schema.Code, error) {
	if len(e) == 0 {
		return nil, nil
	}
	return ride(ctx, c.leaves, slotKey{t, from}, e)
}

func (c *Client) sendUnregister(ctx context.Context, k slotKey, entries []schema.Leave) ([]schema.Code, error) {
	var answer schema.UnregisterAnswer
	req := &schema.Unregister{Head: c.head(k), Entries: entries}
	err := c.toOwner(ctx, k.target, subjects.Unregister, req, &answer, &answer.Head)
	return answer.Results, err
}

// Touch tells t, once, for at most 2 s, which sessions have shown life, sorted by index, at most
// schema.MaxTouched. All are renewed but the exceptions returned.
func (c *Client) Touch(ctx context.Context, t schema.Target, from schema.Process, touched []schema.Touched) ([]schema.TouchException, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	var answer schema.TouchAnswer
	req := &schema.Touch{Head: c.head(slotKey{t, from}), Sessions: touched}
	err := c.toOwner(ctx, t, subjects.Touch, req, &answer, &answer.Head)
	return answer.Exceptions, err
}

// Sync tells t, once, for at most 2 s, of one chunk of a gateway's active sessions, at most
// schema.MaxSync; last marks the last chunk. The answer has a verdict a route.
func (c *Client) Sync(ctx context.Context, t schema.Target, from schema.Process, last bool, routes []schema.Route) (*schema.SyncAnswer, error) {
	if err := c.started(ctx); err != nil {
		return nil, err
	}
	answer := new(schema.SyncAnswer)
	req := &schema.Sync{Head: c.head(slotKey{t, from}), Last: last, Routes: routes}
	if err := c.toOwner(ctx, t, subjects.Sync, req, answer, &answer.Head); err != nil {
		return nil, err
	}
	if len(answer.Verdicts) != len(routes) {
		return nil, misfit(len(answer.Verdicts), len(routes))
	}
	return answer, nil
}

// Remove asks t, once, for at most 2 s, to drop routes that their owner disowned, at most
// schema.MaxRecipients, each only while it has exactly the seq given. It returns how many went.
func (c *Client) Remove(ctx context.Context, t schema.Target, e []schema.Disowned) (int, error) {
	if err := c.started(ctx); err != nil {
		return 0, err
	}
	var answer schema.RemoveAnswer
	req := &schema.Remove{Head: c.head(slotKey{target: t}), Entries: e}
	err := c.toOwner(ctx, t, subjects.Remove, req, &answer, &answer.Head)
	return int(answer.Removed), err
}
