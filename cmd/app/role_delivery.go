package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// DeliveryCmd runs the service that backends ask.
type DeliveryCmd struct {
	Process
	DeliveryFlags `embed:""`
}

// DeliveryFlags say how backends are served.
type DeliveryFlags struct {
	RouteCache int      `name:"route-cache" placeholder:"USERS" help:"Answer from memory for users who were looked up in the last second, at most so many at a time; events keep it true. Default 0: off."`
	API        APIFlags `embed:"" prefix:"api-" group:"api"`
}

// check tells what is wrong with the flags beyond their form.
func (c *DeliveryCmd) check() error {
	if _, err := c.node(); err != nil {
		return err
	}
	return c.DeliveryFlags.check()
}

func (f *DeliveryFlags) check() error {
	if f.RouteCache < 0 {
		return fmt.Errorf("%w: --route-cache takes a number of users, or 0 for none", errUsage)
	}
	return f.API.check()
}

// Run runs the service until it is ended.
func (c *DeliveryCmd) Run(s *session) error {
	return s.runRole(c, &c.Process, func(p *process, node schema.NodeID) (part, error) {
		return p.deliveryRole(node, &c.DeliveryFlags)
	})
}

// deliveryRole opens the API's listener, if there is to be one, and gives what runs the service.
func (p *process) deliveryRole(node schema.NodeID, f *DeliveryFlags) (part, error) {
	api, err := f.API.open(p)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		conns, err := p.connect(ctx, deploy.Delivery, node, 1)
		if err != nil {
			return err
		}
		defer closeAll(conns)
		log := p.log.With("role", "delivery", "node", node)
		// Waits for the bucket and refuses one of another form, which a Delivery only answers with.
		if _, _, err := p.open(ctx, conns[0], lease.Options{}); err != nil {
			return err
		}
		options := []delivery.Option{delivery.WithPrefix(string(p.prefix)), delivery.WithLogger(log), delivery.WithCache(f.RouteCache),
			delivery.WithMetrics(p.registerer(deploy.Delivery, node))}
		if p.local != nil {
			options = append(options, delivery.WithLocal(p.local))
		}
		d, err := delivery.New(conns[0], options...)
		if err != nil {
			return err
		}
		defer d.Close()
		p.health.add("delivery "+string(node), func() error { return errors.Join(connected(conns), knowsTheMesh(ctx, d)) })
		service := delivery.NewService(d, delivery.ServiceConfig{Version: semver(version()), Log: log})
		if api == nil {
			return service.Run(ctx)
		}
		handler, err := service.Handler(f.API.Keys)
		if err != nil {
			return err
		}
		log.Info("API listens", "at", api.Addr(), "tls", f.API.Cert != "")
		return onTop(ctx, service.Run, serveAPI(api, handler, log))
	}, nil
}

// knowsTheMesh reports whether the bucket has been read.
func knowsTheMesh(ctx context.Context, d *delivery.Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := d.Nodes(ctx); err != nil {
		return errors.New("the bucket was not read yet")
	}
	return nil
}
