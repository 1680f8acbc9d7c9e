package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// SetupCmd shows or changes what all processes of the mesh share. It makes the bucket where there
// is none. Policy, limits, grace, watch and what is kept reach running processes at once; the other
// times are read at their start.
type SetupCmd struct {
	Output
	KeepFlags   `embed:""`
	Policy      string         `name:"policy" placeholder:"NAME" help:"Conflict policy: levels, single, one_per_flag or multi, each also with _reject_new."`
	MaxSessions *int           `name:"max-sessions" placeholder:"N" help:"Sessions a user may have."`
	Lease       *time.Duration `name:"lease" placeholder:"DURATION" help:"How long a silent process keeps what it holds."`
	Heartbeat   *time.Duration `name:"heartbeat" placeholder:"DURATION" help:"Silence of a client before it is pinged."`
	TTL         *time.Duration `name:"ttl" placeholder:"DURATION" help:"How long a route stays without a sign of life; at least 3 heartbeats."`
	Grace       *time.Duration `name:"grace" placeholder:"DURATION" help:"How long the event that a user is offline waits for them to return; 0 = not at all."`
	Watch       *onOff         `name:"watch" placeholder:"on|off" help:"Whether clients hear of the users whom they watch. =off has all their watches rest, at once and on all gateways: they are told so, and go on by themselves when it is on again. Look-ups are not touched."`
	Replicas    int            `name:"replicas" default:"1" enum:"1,3" placeholder:"1|3" help:"Copies of a bucket that does not exist yet; those of what --events and --last-seen make are as many as the bucket has."`
	Timeout     time.Duration  `name:"timeout" default:"10s" help:"How long to wait for JetStream."`
}

// Run makes the change and prints the settings.
func (c *SetupCmd) Run(s *session) error {
	if err := c.check(); err != nil {
		return err
	}
	a, err := s.asker()
	if err != nil {
		return err
	}
	defer a.close()
	err = c.apply(s, a)
	if refused := a.ended(); refused != nil {
		return refused // says more than what came of it
	}
	return err
}

// apply makes the bucket where there is none, and the change.
func (c *SetupCmd) apply(s *session, a *asker) error {
	ctx, cancel := context.WithTimeoutCause(a.ctx, c.Timeout, fmt.Errorf("%w: no answer from JetStream within %v", errUnreachable, c.Timeout))
	defer cancel()
	b, err := lease.Open(ctx, a.nc, lease.Options{Prefix: a.prefix, Create: true, Replicas: c.Replicas, Log: s.log(slog.LevelWarn)})
	if err != nil {
		return err
	}
	if has := b.Replicas(); c.Replicas > has {
		fmt.Fprintf(s.err, "the bucket is there, with %d copy: --replicas counts for a new one (`nats stream edit %s --replicas %d` gives it more)\n", has, a.prefix.BucketStream(), c.Replicas)
	}
	before := b.Config()
	if err := c.prepare(ctx, b); err != nil {
		return err
	}
	after, err := b.Configure(ctx, c.put)
	if err != nil {
		return err
	}
	if err := c.remarks(s, before, after); err != nil {
		return err
	}
	return c.print(s, before, after)
}

// check tells what is wrong with the flags whatever the settings are now.
func (c *SetupCmd) check() error {
	if err := c.KeepFlags.check(); err != nil || c.Policy == "" {
		return err
	}
	if _, err := directory.ParsePolicy(c.Policy); err != nil {
		return fmt.Errorf("%w: --policy: %w", errUsage, err)
	}
	return nil
}

// put puts the flags that were given into the settings.
func (c *SetupCmd) put(to *schema.Config) error {
	to.Policy = cmp.Or(c.Policy, to.Policy)
	if c.MaxSessions != nil {
		to.MaxSessions = *c.MaxSessions
	}
	set := func(field *int64, d *time.Duration) {
		if d != nil {
			*field = d.Milliseconds()
		}
	}
	set(&to.LeaseMS, c.Lease)
	set(&to.HeartbeatMS, c.Heartbeat)
	set(&to.TTLMS, c.TTL)
	set(&to.GraceMS, c.Grace)
	if c.Watch != nil {
		to.WatchOff = !bool(*c.Watch)
	}
	c.KeepFlags.change(to)
	if err := to.Check(); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return nil
}

func (c *SetupCmd) print(s *session, before, after schema.Config) error {
	for _, line := range restarts(before, after) {
		fmt.Fprintln(s.err, line)
	}
	if c.JSON {
		return printJSON(s.out, after)
	}
	t := newTable(s.out, "SETTING", "VALUE")
	t.row("policy", after.Policy)
	t.row("max_sessions", after.MaxSessions)
	t.row("lease", after.Lease())
	t.row("heartbeat", after.Heartbeat())
	t.row("ttl", after.TTL())
	t.row("grace", after.Grace())
	t.row("watch", switched(!after.WatchOff))
	t.row("events", switched(after.Events))
	t.row("last_seen", switched(after.LastSeen))
	t.row("slots", after.Slots)
	t.row("format", after.Format)
	return t.flush()
}
