package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// chat is the demo's backend: what a client sends to another user is pushed to all of that user's
// devices, and the sender is answered what became of it on each. It is connected as any backend
// is, and does nothing that a backend in another language could not: it answers up.> and asks
// presence.push.
type chat struct {
	nc     *nats.Conn
	prefix subjects.Prefix
	log    *slog.Logger
}

// chatWait bounds a push.
const chatWait = 3 * time.Second

// sent is what clients send.
type sent struct {
	To   schema.UID `json:"to"`
	Text string     `json:"text"`
}

// said is what arrives at the other end.
type said struct {
	From schema.UID `json:"from"`
	Text string     `json:"text"`
}

// chatRole gives what runs the chat.
func (p *process) chatRole(node schema.NodeID) part {
	return func(ctx context.Context) error {
		conns, err := p.connect(ctx, deploy.Backend, node, 1)
		if err != nil {
			return err
		}
		defer closeAll(conns)
		c := &chat{nc: conns[0], prefix: p.prefix, log: p.log}
		queue := make(chan *nats.Msg, 256) // when full NATS drops, and the sender's wait ends in timeout
		if _, err := c.nc.ChanQueueSubscribe(p.prefix.AllUp(), string(node), queue); err != nil {
			return fmt.Errorf("chat: %w", err)
		}
		p.health.add("chat "+string(node), func() error { return connected(conns) })
		return c.serve(ctx, queue)
	}
}

func (c *chat) serve(ctx context.Context, queue chan *nats.Msg) error {
	for {
		select {
		case m := <-queue:
			if err := c.answer(ctx, m); err != nil {
				c.log.Warn("chat: answer not sent", "err", err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// answer replies with the push's results, or with a micro error that the gateway shows the client.
func (c *chat) answer(ctx context.Context, m *nats.Msg) error {
	var up schema.Up
	var body sent
	if err := json.Unmarshal(m.Data, &up); err != nil {
		return refuse(m, "400", err.Error())
	}
	if err := json.Unmarshal(up.Payload, &body); err != nil || body.To == "" {
		return refuse(m, "400", `send {"to":"<user>","text":"..."}`)
	}
	payload, _ := json.Marshal(said{From: up.UID, Text: body.Text}) // strings always encode
	request, err := json.Marshal(schema.PushCall{
		UIDs: []schema.UID{body.To}, From: up.UID, Payload: payload,
		Except: &schema.Except{UID: up.UID, Node: up.Node, Boot: up.Boot, Session: up.Session},
	})
	if err != nil {
		return refuse(m, "400", err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, chatWait)
	defer cancel()
	answer, err := c.nc.RequestWithContext(ctx, c.prefix.ServiceCall("push"), request)
	if err != nil {
		return refuse(m, "504", "push: "+err.Error())
	}
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		return refuse(m, code, answer.Header.Get(micro.ErrorHeader))
	}
	return m.Respond(answer.Data)
}

func refuse(m *nats.Msg, code, text string) error {
	r := nats.NewMsg(m.Reply)
	r.Header.Set(micro.ErrorCodeHeader, code)
	r.Header.Set(micro.ErrorHeader, text)
	return m.RespondMsg(r)
}
