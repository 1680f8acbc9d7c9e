package app

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// AllCmd runs gateway, authority and delivery in one process, and with --embed the NATS server too.
type AllCmd struct {
	Process
	BucketFlags   `embed:""`
	GatewayFlags  `embed:""`
	DeliveryFlags `embed:""`
	Embed         string `name:"embed" placeholder:"DIR" help:"Run the NATS server here as well, with its files in DIR; passwords as in deploy/nats.conf, from $$ROLLCALL_PASSWORD_GATEWAY and so on."`
	NATSListen    string `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"ADDR" help:"Where that server listens. On loopback, whoever gives no credentials is the operator."`
}

// check tells what is wrong with the flags beyond their form.
func (c *AllCmd) check() error {
	if _, err := c.node(); err != nil {
		return err
	}
	if err := c.DeliveryFlags.check(); err != nil {
		return err
	}
	return c.GatewayFlags.check()
}

// Run runs the roles until it is ended.
func (c *AllCmd) Run(s *session) error {
	return s.runRole(c, &c.Process, func(p *process, node schema.NodeID) (part, error) {
		if c.Embed != "" {
			if err := c.startNATS(p); err != nil {
				return nil, err
			}
		}
		p.local = new(locals)
		gw, err := p.gatewayRole(node, &c.GatewayFlags)
		if err != nil {
			return nil, err
		}
		asked, err := p.deliveryRole(node, &c.DeliveryFlags)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			return onTop(ctx, p.authorityRole(node, lease.Options{Replicas: c.Replicas}, false), p.afterAuthority(gw, asked))
		}, nil
	})
}

// startNATS starts the server that the roles then dial, and that ends after them.
func (c *AllCmd) startNATS(p *process) error {
	passwords := make(map[deploy.User]string)
	for _, u := range deploy.Users() {
		passwords[u] = os.Getenv(u.PasswordVariable())
	}
	open := loopback(c.NATSListen)
	n, err := StartNATS(NATSConfig{
		Listen: c.NATSListen, Store: filepath.Join(c.Embed, "nats"), SyncAlways: true, OpenOperator: open, Passwords: passwords, Log: p.log,
	})
	if err != nil {
		return err
	}
	p.ends = append(p.ends, n.Stop)
	p.dialer = n.dialer
	p.log.Info("nats-server", "listen", n.URL(), "operator_without_password", open)
	return nil
}

// afterAuthority runs parts when the authority beside them serves, which has then made the bucket.
func (p *process) afterAuthority(parts ...part) part {
	return func(ctx context.Context) error {
		if err := p.health.wait(ctx, 1); err != nil {
			return err
		}
		return together(ctx, parts...)
	}
}

// dialer is that of a role beside the server in one process.
func (n *NATS) dialer(u deploy.User) (*dialer, error) {
	return &dialer{servers: "in-process", options: n.Options(u)}, nil
}
