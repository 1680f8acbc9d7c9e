package app

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// KeepFlags say what of the past is kept, and for how long.
type KeepFlags struct {
	Events       *onOff        `name:"events" placeholder:"on|off" help:"Have the stream presence_events keep all events, and miss none: made where there is none. =off ends that and leaves the stream as it is."`
	EventsMaxAge time.Duration `name:"events-max-age" placeholder:"DURATION" help:"For how long; default 24h for a new stream, and no change for one that is there."`
}

// onOff is a switch that can also be left as it is.
type onOff bool

// Decode reads --flag, --flag=on and --flag=off.
func (o *onOff) Decode(ctx *kong.DecodeContext) error {
	*o = true
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		return nil
	}
	switch v := ctx.Scan.Pop().Value.(type) {
	case bool:
		*o = onOff(v)
	case string:
		if v == "on" || v == "off" {
			*o = v == "on"
			return nil
		}
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("it takes on or off, not %q", v)
		}
		*o = onOff(b)
	default:
		return fmt.Errorf("it takes on or off, not %v", v)
	}
	return nil
}

// IsBool has the flag need no value.
func (*onOff) IsBool() bool { return true }

// check tells what is wrong with the flags whatever the settings are now.
func (f *KeepFlags) check() error {
	if f.EventsMaxAge != 0 && f.EventsMaxAge < lease.MinEventsAge {
		return fmt.Errorf("%w: --events-max-age: at least %v", errUsage, lease.MinEventsAge)
	}
	if f.EventsMaxAge != 0 && f.Events != nil && !*f.Events {
		return fmt.Errorf("%w: --events-max-age has no meaning with --events=off", errUsage)
	}
	return nil
}

// prepare makes what the settings will count on.
func (f *KeepFlags) prepare(ctx context.Context, b *lease.Bucket) error {
	wanted := b.Config().Events
	if f.Events != nil {
		wanted = bool(*f.Events)
	}
	if f.EventsMaxAge != 0 && !wanted {
		return fmt.Errorf("%w: --events-max-age: no events are kept: add --events", errUsage)
	}
	if f.Events != nil && *f.Events || f.EventsMaxAge != 0 {
		return b.KeepEvents(ctx, f.EventsMaxAge)
	}
	return nil
}

// change puts the flags that were given into the settings.
func (f *KeepFlags) change(to *schema.Config) {
	if f.Events != nil {
		to.Events = bool(*f.Events)
	}
}

// remarks says what the change leaves to the operator.
func (f *KeepFlags) remarks(s *session, before, after schema.Config) error {
	prefix, err := s.cli.prefix()
	if err != nil {
		return err
	}
	if before.Events && !after.Events {
		fmt.Fprintf(s.err, "the stream %s keeps what it has, and still hears events, but may miss some: `nats stream rm %[1]s` deletes it\n", prefix.EventStream())
	}
	return nil
}

func switched(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
