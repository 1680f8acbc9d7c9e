package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway"
	"github.com/rollcall-mesh/rollcall/schema"
)

// GatewayCmd runs a gateway.
type GatewayCmd struct {
	Process
	GatewayFlags `embed:""`
}

// GatewayFlags say how clients are taken.
type GatewayFlags struct {
	Listen  []Listener `name:"listen" default:"127.0.0.1:8080" placeholder:"[NAME=]ADDR" help:"Where WebSocket clients come in, at /ws. The name stands in their routes. Default: 127.0.0.1:8080."`
	Auth    string     `name:"auth" enum:"jwt,nats,insecure" default:"jwt" placeholder:"jwt|nats|insecure" help:"How clients prove who they are: by a signed token, or by one that a backend of yours judges, asked on auth.connect; insecure believes them, on loopback only. Default: jwt."`
	JWT     JWTFlags   `embed:"" prefix:"jwt-" group:"jwt"`
	Origins []string   `name:"origins" placeholder:"PATTERN" help:"Web pages of other hosts that may connect, such as app.example.com or https://*.example.com."`
	Watch   WatchFlags `embed:"" prefix:"watch-"`
	Limits  LimitFlags `embed:"" prefix:"max-" group:"limits"`
	Drain   DrainFlags `embed:"" prefix:"drain-" group:"limits"`
}

// WatchFlags say whom clients may follow.
type WatchFlags struct {
	Off    bool `name:"off" help:"Clients may not follow other users; backends still look up and watch."`
	Policy bool `name:"policy" help:"Ask a backend, at auth.watch, whom a client may follow beside itself and those whom its token lists."`
}

// JWTFlags say which tokens are good.
type JWTFlags struct {
	Key       string        `name:"key" placeholder:"FILE" help:"File with the secret (HS256), a public key (PEM) or a JWK set."`
	JWKS      string        `name:"jwks" placeholder:"URL" help:"Where a JWK set is fetched."`
	Algorithm string        `name:"algorithm" enum:"HS256,RS256,ES256,EdDSA" default:"HS256" placeholder:"NAME" help:"The only one taken: HS256, RS256, ES256 or EdDSA. Default: HS256."`
	Audience  string        `name:"audience" placeholder:"NAME" help:"Must stand in the token where it is set."`
	Issuer    string        `name:"issuer" placeholder:"NAME" help:"Must stand in the token where it is set."`
	Leeway    time.Duration `name:"leeway" placeholder:"DURATION" help:"How far clocks may differ."`
}

// DrainFlags say how a gateway ends.
type DrainFlags struct {
	Wait time.Duration `name:"wait" placeholder:"DURATION" help:"Time between not ready and the first close, for load balancers."`
	Rate int           `name:"rate" default:"1000" placeholder:"N" help:"Sessions closed a second. Default 1000."`
}

// check tells what is wrong with the flags beyond their form.
func (c *GatewayCmd) check() error {
	if _, err := c.node(); err != nil {
		return err
	}
	return c.GatewayFlags.check()
}

func (f *GatewayFlags) check() error {
	list, err := named(f.Listen)
	if err != nil {
		return err
	}
	if err := f.checkLimits(); err != nil {
		return err
	}
	for _, pattern := range f.Origins {
		if err := gateway.CheckOrigin(pattern); err != nil {
			return fmt.Errorf("%w: --origins: %w", errUsage, err)
		}
	}
	switch f.Auth {
	case "jwt":
		if (f.JWT.Key == "") == (f.JWT.JWKS == "") {
			return fmt.Errorf("%w: --auth jwt takes either --jwt-key FILE or --jwt-jwks URL (to try it on this machine: --auth insecure)", errUsage)
		}
		return nil
	case "nats":
		return nil
	}
	for _, l := range list {
		if !loopback(l.Address) {
			return fmt.Errorf("%w: --auth insecure believes every client: it listens on loopback only, not on %s", errUsage, l.Address)
		}
	}
	return nil
}

// Run runs the gateway until it is ended.
func (c *GatewayCmd) Run(s *session) error {
	return s.runRole(c, &c.Process, func(p *process, node schema.NodeID) (part, error) {
		return p.gatewayRole(node, &c.GatewayFlags)
	})
}

// gatewayRole opens a gateway's listeners, so that a port in use is told at once, and gives what
// runs it.
func (p *process) gatewayRole(node schema.NodeID, f *GatewayFlags) (part, error) {
	list, err := named(f.Listen)
	if err != nil {
		return nil, err
	}
	var open []gateway.Listener
	for _, l := range list {
		socket, err := p.listen(l.Address, "--listen")
		if err != nil {
			return nil, err
		}
		open = append(open, gateway.Listener{Name: l.Name, Listener: socket})
	}
	return func(ctx context.Context) error {
		auth, err := f.authenticator(ctx, p.log)
		if err != nil {
			return err
		}
		return p.runGateway(ctx, gateway.Config{
			Node: node, Listeners: open, Auth: auth, Origins: f.Origins, WatchOff: f.Watch.Off, WatchPolicy: f.Watch.Policy,
			Limits: f.Limits.limits(),
			Drain:  gateway.Drain{Wait: f.Drain.Wait, Rate: f.Drain.Rate},
		})
	}, nil
}

// runGateway runs a gateway with what is the process's filled in; without an authenticator a backend
// is asked, over the gateway's own connection.
func (p *process) runGateway(ctx context.Context, c gateway.Config) error {
	c.Prefix, c.Version = p.prefix, version()
	c.Local = p.local != nil
	c.Metrics, c.Log = p.registerer(deploy.Gateway, c.Node), p.log
	conns, err := p.connect(ctx, deploy.Gateway, c.Node, 2)
	if err != nil {
		return err
	}
	defer closeAll(conns)
	if c.Auth == nil {
		c.Auth = gateway.NewNATSAuth(conns[0], gateway.NATSAuthConfig{Prefix: p.prefix})
	}
	bucket, view, err := p.open(ctx, conns[0], lease.Options{})
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Conns{Control: conns[0], Push: conns[1]}, bucket, view, c)
	if err != nil {
		return err
	}
	if p.local != nil {
		defer p.local.add(g)()
	}
	p.health.add("gateway "+string(c.Node), func() error { return errors.Join(connected(conns), g.Ready()) })
	for _, l := range c.Listeners {
		p.log.Info("gateway listens", "node", c.Node, "listener", l.Name, "at", l.Addr())
	}
	return onTop(ctx, view.Run, g.Run)
}

// authenticator gives what tells who clients are; nil where a backend does.
func (f *GatewayFlags) authenticator(ctx context.Context, log *slog.Logger) (gateway.Authenticator, error) {
	switch f.Auth {
	case "insecure":
		return gateway.Insecure{}, nil
	case "nats":
		return nil, nil
	}
	return gateway.NewJWT(ctx, gateway.JWTConfig{
		Algorithm: f.JWT.Algorithm, KeyFile: f.JWT.Key, JWKSURL: f.JWT.JWKS,
		Audience: f.JWT.Audience, Issuer: f.JWT.Issuer, Leeway: f.JWT.Leeway, Log: log,
	})
}
