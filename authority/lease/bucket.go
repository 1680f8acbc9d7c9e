package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Options say which bucket a process works with, and what it may do where there is none.
type Options struct {
	Prefix   subjects.Prefix // in front of all subjects; names the bucket too. Default none
	Create   bool            // make the bucket and its config where they are absent; else wait for them
	Replicas int             // of a bucket made here: 1 or 3. Default 1
	Memory   bool            // a bucket made here is kept in memory only: for tests
	Defaults schema.Config   // the config of a bucket made here. Default schema.DefaultConfig()
	Log      *slog.Logger    // default: nowhere
}

func (o Options) withDefaults() Options {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Defaults == (schema.Config{}) {
		o.Defaults = schema.DefaultConfig()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if o.Replicas < 1 || o.Replicas > 5 {
		return fmt.Errorf("replicas is %d: it takes 1 or 3", o.Replicas)
	}
	if err := o.Prefix.Check(); err != nil {
		return err
	}
	return o.Defaults.Check()
}

// Bucket is the mesh's KV bucket, read from the stream's leader and written by compare-and-swap.
// It starts no goroutine.
type Bucket struct {
	// static
	nc     *nats.Conn
	js     jetstream.JetStream
	o      Options
	stream jetstream.Stream

	reach reach

	mu     sync.Mutex
	config schema.Config
}

// Open waits until the bucket and its config stand, makes them if it may, and checks the config.
// It returns the error of schema.Config.Check, ErrForeignBucket, ErrReplicas, ErrSmallMessages, or the
// end of ctx; whatever else is in the way is logged and tried again.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Bucket, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", o.Prefix.Bucket(), err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", o.Prefix.Bucket(), err)
	}
	b := &Bucket{nc: nc, js: js, o: o, config: o.Defaults}
	if err := b.ensure(ctx, 0); err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", o.Prefix.Bucket(), err)
	}
	if most := nc.MaxPayload(); most < minPayload {
		return nil, fmt.Errorf("%w: it is %d bytes, and rollcall needs %d, which is the default", ErrSmallMessages, most, minPayload)
	}
	return b, nil
}

// minPayload is what a NATS server's messages may have at least, in bytes: an answer to a look-up has up
// to 512 KiB beside its last user, a push 256 KiB.
const minPayload = 1 << 20

// Config is what the bucket's config said when it was last opened; View.Config follows it.
func (b *Bucket) Config() schema.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config
}

// Replicas is how many copies the bucket had when it was opened.
func (b *Bucket) Replicas() int { return b.stream.CachedInfo().Config.Replicas }

func (b *Bucket) setConfig(c schema.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = c
}

// ensure waits until the bucket and its config stand. One made here starts above every revision
// that the caller has seen, so that fences grow.
func (b *Bucket) ensure(ctx context.Context, above schema.Revision) error {
	const longest = 2 * time.Second
	said, pause := "", 50*time.Millisecond
	for {
		err := b.attempt(ctx, above)
		if err == nil || fatal(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if why := b.waiting(err); why != said {
			b.o.Log.Warn(why, "bucket", b.o.Prefix.Bucket(), "err", err)
			said = why
		}
		if Wait(ctx, pause) != nil {
			return context.Cause(ctx)
		}
		pause = min(2*pause, longest)
	}
}

// fatal reports whether trying again cannot help.
func fatal(err error) bool {
	return errors.Is(err, schema.ErrConfig) || errors.Is(err, ErrForeignBucket) || errors.Is(err, ErrReplicas) || errors.Is(err, nats.ErrConnectionClosed)
}

func (b *Bucket) waiting(err error) string {
	absent := errors.Is(err, ErrNoBucket) || errors.Is(err, ErrNoKey)
	switch {
	case absent && !b.o.Create:
		return "waiting for the bucket: an authority makes it"
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "waiting for JetStream: the NATS server, or this account, has it off"
	}
	return "waiting for the bucket"
}

// attempt opens the bucket once: the stream, then its config, which is the first key written.
func (b *Bucket) attempt(ctx context.Context, above schema.Revision) error {
	if err := b.openStream(ctx, above); err != nil {
		return err
	}
	c, at, err := b.readConfig(ctx)
	if errors.Is(err, ErrNoKey) && b.o.Create {
		c, err = b.writeConfig(ctx, at)
	}
	if err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	b.setConfig(c)
	return nil
}

// readConfig gives the settings, and at which revision they stand. A deleted config is as good as none:
// ErrNoKey, with the revision to write over.
func (b *Bucket) readConfig(ctx context.Context) (schema.Config, schema.Revision, error) {
	e, err := b.read(ctx, subjects.ConfigKey)
	if err == nil && e.marker {
		err = b.explain("read", subjects.ConfigKey, ErrNoKey)
	}
	if err != nil {
		return schema.Config{}, e.rev, err
	}
	c, err := decodeConfig(e)
	if err != nil {
		err = fmt.Errorf("%w: delete that key, and `rollcall setup` writes it anew, from the defaults and its flags", err)
	}
	return c, e.rev, err
}

func decodeConfig(e entry) (schema.Config, error) {
	c, err := schema.ParseConfig(e.data)
	if err != nil {
		return c, fmt.Errorf("%w: key %s at revision %d: %w", schema.ErrConfig, e.key, e.rev, err)
	}
	return c, nil
}

// writeConfig is the first writer's; another's that came first is read at the next attempt.
func (b *Bucket) writeConfig(ctx context.Context, at schema.Revision) (schema.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c := b.Config()
	info, err := b.stream.Info(ctx)
	if err != nil {
		return c, b.explain("write", subjects.ConfigKey, err)
	}
	_, err = b.swap(ctx, subjects.ConfigKey, c, at)
	if err == nil && info.State.Msgs > 0 {
		b.o.Log.Warn("the mesh's settings were deleted: written anew, see `rollcall setup`", "bucket", b.o.Prefix.Bucket(), "lease", c.Lease(), "policy", c.Policy)
	}
	return c, err
}

// keepConfig writes the settings anew as this process knows them, where it may make the bucket and a listing
// of it shows that somebody has deleted them: who starts later would take the defaults.
func (b *Bucket) keepConfig(ctx context.Context, entries []entry) {
	var last entry
	for _, e := range entries {
		if e.key == subjects.ConfigKey {
			last = e
		}
	}
	if !b.o.Create || last.rev > 0 && !last.marker {
		return
	}
	if _, err := b.writeConfig(ctx, last.rev); err != nil && !errors.Is(err, ErrConflict) {
		b.o.Log.Warn("the mesh's settings are gone and could not be written anew", "err", err)
	}
}
