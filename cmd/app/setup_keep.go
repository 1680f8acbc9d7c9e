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
	LastSeen     string        `name:"last-seen" placeholder:"DURATION|off" help:"Keep in the bucket last_seen when users were last there, each for so long, as 720h. off ends that and leaves the bucket as it is."`
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
	if _, _, err := f.lastSeen(); err != nil {
		return err
	}
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
		if err := b.KeepEvents(ctx, f.EventsMaxAge); err != nil {
			return err
		}
	}
	if age, _, _ := f.lastSeen(); age > 0 { // check has seen the error
		return b.KeepLastSeen(ctx, age)
	}
	return nil
}

// lastSeen gives for how long it is kept, 0 for off, and whether that was said.
func (f *KeepFlags) lastSeen() (age time.Duration, said bool, err error) {
	if f.LastSeen == "" || f.LastSeen == "off" {
		return 0, f.LastSeen != "", nil
	}
	age, err = time.ParseDuration(f.LastSeen)
	if err != nil || age < lease.MinLastSeen {
		return 0, false, fmt.Errorf("%w: --last-seen: it takes off, or a duration of at least %v, not %q", errUsage, lease.MinLastSeen, f.LastSeen)
	}
	return age, true, nil
}

// change puts the flags that were given into the settings.
func (f *KeepFlags) change(to *schema.Config) {
	if f.Events != nil {
		to.Events = bool(*f.Events)
	}
	if age, said, _ := f.lastSeen(); said {
		to.LastSeen = age > 0
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
	if before.LastSeen && !after.LastSeen {
		fmt.Fprintf(s.err, "the bucket %s keeps what it has until that is too old: `nats kv del %[1]s` deletes it\n", prefix.LastSeenBucket())
	}
	return nil
}

func switched(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
