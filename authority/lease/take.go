package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// candidate is a life that does not have the node's key yet.
type candidate struct {
	h     *Holder
	life  *life
	asked inquiry // what is known of the present holder
	tried bool    // the key may have been written: an answer may have been lost
	said  bool    // that the key cannot be had
}

// take draws a boot and takes the node's key with it. When ctx ends on the way it gives the life
// too if its key may have been written, so that it can be resigned.
func (h *Holder) take(ctx context.Context) (*life, error) {
	c := &candidate{h: h, life: &life{me: schema.Process{Node: h.c.Node, Boot: schema.NewBoot()}}}
	for {
		free, err := c.look(ctx)
		if err != nil {
			return c.abandon(), err
		}
		if free && c.write(ctx) {
			return c.life, nil
		}
		if Wait(ctx, askApart) != nil {
			return c.abandon(), context.Cause(ctx)
		}
	}
}

// look reads the node's key and decides whether it may be written now.
func (c *candidate) look(ctx context.Context) (free bool, err error) {
	e, err := c.h.b.read(ctx, c.h.key)
	c.life.rev = e.rev
	switch judge(c.life.me.Boot, e, err) {
	case closed:
		return false, err
	case bucketGone:
		if errors.Is(err, ErrNoKey) {
			return true, nil
		}
		return false, c.h.b.ensure(ctx, c.h.v.highestRevision())
	case mine: // an answer was lost; written again, to know since when it may be trusted
		return true, nil
	case dead:
		if v, ok := decodeProcess(e); ok && v.Boot == c.life.me.Boot { // declared dead before its first answer
			c.life.me.Boot = schema.NewBoot()
		}
		return true, nil
	case other:
		if held := c.h.held; held != 0 && e.rev >= held { // below it the log has lost its tail, and brings back who stood here before
			return false, fmt.Errorf("%w: at revision %d", ErrTakenOver, e.rev)
		}
		return c.h.ask(ctx, &c.asked, e)
	}
	c.say("the node's key cannot be read: trying on", err)
	return false, nil
}

// write takes the key at the revision read, and reports whether that was acknowledged.
func (c *candidate) write(ctx context.Context) bool {
	c.tried = true
	err := c.h.renewOnce(ctx, c.life)
	if err != nil {
		c.say("the node's key cannot be written: trying on", err)
	}
	return err == nil
}

// say tells the first difficulty aloud.
func (c *candidate) say(what string, err error) {
	level := slog.LevelDebug
	if !c.said {
		level, c.said = slog.LevelWarn, true
	}
	c.h.c.Log.Log(context.Background(), level, what, "err", err)
}

func (c *candidate) abandon() *life {
	if !c.tried {
		return nil
	}
	return c.life
}

// isClosed reports whether nothing can be asked over this connection any more.
func isClosed(err error) bool { return errors.Is(err, nats.ErrConnectionClosed) }
