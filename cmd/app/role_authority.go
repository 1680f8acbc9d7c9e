package app

import (
	"context"
	"errors"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
)

// AuthorityCmd runs an authority.
type AuthorityCmd struct {
	Process
	BucketFlags `embed:""`
}

// BucketFlags say how a bucket is made where there is none.
type BucketFlags struct {
	Replicas int `name:"replicas" default:"1" enum:"1,3" placeholder:"1|3" help:"Copies of a bucket that does not exist yet."`
}

// check tells what is wrong with the flags beyond their form.
func (c *AuthorityCmd) check() error {
	_, err := c.node()
	return err
}

// Run runs the authority until it is ended.
func (c *AuthorityCmd) Run(s *session) error {
	return s.runRole(c, &c.Process, func(p *process, node schema.NodeID) (part, error) {
		return p.authorityRole(node, lease.Options{Replicas: c.Replicas}, false), nil
	})
}

// authorityRole gives what runs an authority, which makes the bucket where there is none. fresh: the
// bucket is this program's alone, so no gateway can be there that has not written its key yet.
func (p *process) authorityRole(node schema.NodeID, o lease.Options, fresh bool) part {
	o.Create = true
	return func(ctx context.Context) error {
		conns, err := p.connect(ctx, deploy.Authority, node, 1)
		if err != nil {
			return err
		}
		defer closeAll(conns)
		bucket, view, err := p.open(ctx, conns[0], o)
		if err != nil {
			return err
		}
		w, err := authority.New(conns[0], bucket, view, authority.Config{
			Node: node, Prefix: p.prefix, Version: version(), Fresh: fresh,
			Log: p.log, Metrics: p.registerer(deploy.Authority, node),
		})
		if err != nil {
			return err
		}
		p.health.add("authority "+string(node), func() error {
			if !w.Ready() {
				return errors.Join(connected(conns), errors.New("no lease"))
			}
			return connected(conns)
		})
		return onTop(ctx, view.Run, w.Run)
	}
}
