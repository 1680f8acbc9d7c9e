package client

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// acksLate is how long after the longest AckWait of a message its acknowledgements are given up.
const acksLate = 500 * time.Millisecond

// inboxes is what is needed of a *nats.Conn for an answer that comes in two messages.
type inboxes interface {
	NewInbox() string
	SubscribeSync(subject string) (*nats.Subscription, error)
	PublishRequest(subject, reply string, data []byte) error
}

// PushForAcks is Push for a message whose frames say how long devices may take to acknowledge.
// Where acknowledgements follow, acks is not nil: it gives all results once more, with those that
// the devices have acknowledged, and is closed; without that where the gateway was not heard from
// again. What follows holds up nobody: the next message may go out meanwhile.
func (c *Client) PushForAcks(ctx context.Context, m *schema.Push) (results []schema.PushResult, acks <-chan []schema.PushResult, err error) {
	if err := c.started(ctx); err != nil {
		return nil, nil, err
	}
	data, err := schema.Marshal(m)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errEncode, err)
	}
	var answer schema.PushAnswer
	var sub *nats.Subscription
	err = c.toGateway(ctx, m.To, func() error {
		sub, err = c.twice(ctx, c.config.Prefix.Push(m.To), data, &answer)
		return err
	})
	want, wait := wanted(m)
	if results, err = each(err, answer.ProcessHead, m.To, answer.Results, want); err != nil || !answer.AcksFollow {
		unsubscribe(sub)
		return results, nil, err
	}
	return results, c.follow(sub, m.To, want, wait+acksLate), nil
}

// twice sends a request whose answer may come in two messages, and reads the first.
func (c *Client) twice(ctx context.Context, subject string, data []byte, answer *schema.PushAnswer) (*nats.Subscription, error) {
	inbox := c.inboxes.NewInbox()
	sub, err := c.inboxes.SubscribeSync(inbox)
	var msg *nats.Msg
	if err == nil {
		err = c.inboxes.PublishRequest(subject, inbox, data)
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, tryLong)
		defer cancel()
		msg, err = sub.NextMsgWithContext(within)
	}
	if err == nil {
		if err = schema.Unmarshal(msg.Data, answer); err == nil {
			return sub, nil
		}
		err = fmt.Errorf("%w: %w", ErrAnswer, err)
	} else {
		err = c.failure(ctx, err)
	}
	unsubscribe(sub)
	return nil, fmt.Errorf("push to %s: %w", subject, err)
}

// follow waits beside the caller for the second message.
func (c *Client) follow(sub *nats.Subscription, from schema.Process, want int, most time.Duration) <-chan []schema.PushResult {
	acks := make(chan []schema.PushResult, 1)
	ok := c.spawn(func(ctx context.Context) {
		defer close(acks)
		defer unsubscribe(sub)
		within, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		msg, err := sub.NextMsgWithContext(within)
		var late schema.PushAcks
		if err == nil {
			err = schema.Unmarshal(msg.Data, &late)
		}
		if err == nil && (late.From != from || len(late.Results) != want) {
			err = misfit(len(late.Results), want)
		}
		if err != nil {
			c.log.Debug("acknowledgements not heard", "gateway", from, "err", err)
			return
		}
		acks <- late.Results
	})
	if !ok {
		unsubscribe(sub)
		close(acks)
	}
	return acks
}

// wanted counts a message's recipients, and gives the longest wait for them.
func wanted(m *schema.Push) (recipients int, wait time.Duration) {
	for i := range m.Frames {
		recipients += len(m.Frames[i].Recipients)
		wait = max(wait, m.Frames[i].AckWait)
	}
	return recipients, wait
}

func unsubscribe(sub *nats.Subscription) {
	if sub != nil {
		sub.Unsubscribe()
	}
}
