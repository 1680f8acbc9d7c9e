package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// DrainCmd ends a process in good order, as SIGTERM does, from anywhere.
type DrainCmd struct {
	Asking
	Node schema.NodeID `arg:"" help:"The process's node."`
	Role string        `name:"role" enum:"gateway,authority," default:"" placeholder:"gateway|authority" help:"Needed where both have that name."`
}

// Times of following a drain.
const (
	drainPoll   = 500 * time.Millisecond
	drainSilent = 10 * time.Second // without an answer, nor the word that nobody is there
)

// errAmbiguous is returned when a gateway and an authority have the node's name.
var errAmbiguous = fmt.Errorf("%w: a gateway and an authority have that name: say --role", errUsage)

// Run asks the process to drain and prints what is left, until it has ended.
func (c *DrainCmd) Run(s *session) error {
	if err := c.Node.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	subject, err := c.find(a)
	if err != nil {
		return err
	}
	heard, last := time.Now(), -1
	for {
		left, err := a.drain(subject)
		switch {
		case errors.Is(err, nats.ErrNoResponders) && last < 0:
			return fmt.Errorf("%w: %s is not there any more", errUnreachable, c.Node)
		case errors.Is(err, nats.ErrNoResponders):
			fmt.Fprintf(s.out, "%s has ended\n", c.Node)
			return nil
		case a.ctx.Err() != nil:
			return context.Cause(a.ctx)
		case err == nil:
			heard = time.Now()
			if left != last {
				fmt.Fprintf(s.out, "%s drains: %d left\n", c.Node, left)
			}
			last = left
		case time.Since(heard) > drainSilent && !a.nc.IsConnected():
			return fmt.Errorf("%w: NATS is not there any more, as when a demo ends, which holds it: whether %s has ended is not known", errUnreachable, c.Node)
		case time.Since(heard) > drainSilent:
			return fmt.Errorf("%w: %s: %w", errUnreachable, c.Node, err)
		}
		if lease.Wait(a.ctx, drainPoll) != nil {
			return context.Cause(a.ctx)
		}
	}
}

// find gives the subject on which the process is asked to drain.
func (c *DrainCmd) find(a *asker) (subject string, err error) {
	var reply schema.SlotsReply
	if err := a.call("slots", struct{}{}, &reply, c.Timeout); err != nil {
		return "", err
	}
	found := slices.DeleteFunc(reply.Processes, func(p schema.ProcessStatus) bool {
		return p.Node != c.Node || p.State == schema.StateDead || c.Role != "" && p.Role != c.Role
	})
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("no process is called %s: rollcall nodes lists them", c.Node)
	case len(found) > 1:
		return "", errAmbiguous
	}
	p := schema.Process{Node: c.Node, Boot: found[0].Boot}
	if found[0].Role == string(lease.Gateway) {
		return a.prefix.DrainGateway(p), nil
	}
	return a.prefix.DrainAuthority(p), nil
}

// drain asks once, which begins it or tells how far it is.
func (a *asker) drain(subject string) (left int, err error) {
	ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second)
	defer cancel()
	m, err := a.nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return 0, err
	}
	var reply schema.DrainReply
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return 0, fmt.Errorf("answer: %w", err)
	}
	return reply.Left, nil
}
