package lease

import (
	"context"
	"errors"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Configure changes the mesh's settings by compare-and-swap and gives what they are then. It
// returns the error of schema.Config.Check, or change's, and has then changed nothing. change may
// be called again with newer settings, when another process was first.
func (b *Bucket) Configure(ctx context.Context, change func(*schema.Config) error) (schema.Config, error) {
	for {
		e, err := b.read(ctx, subjects.ConfigKey)
		if err != nil {
			return schema.Config{}, err
		}
		before, err := decodeConfig(e)
		if err != nil {
			return schema.Config{}, err
		}
		after := before
		if err := change(&after); err != nil {
			return before, err
		}
		if err := after.Check(); err != nil || after == before {
			return before, err
		}
		_, err = b.swap(ctx, subjects.ConfigKey, after, e.rev)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err != nil {
			return before, err
		}
		b.setConfig(after)
		return after, nil
	}
}
