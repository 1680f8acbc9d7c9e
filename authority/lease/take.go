package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// take draws a boot and takes the node's key with it. When ctx ends on the way it gives a life
// that may have been written, to be resigned, or nil.
func (h *Holder) take(ctx context.Context, first bool) (*life, error) {
	l := &life{me: schema.Process{Node: h.c.Node, Boot: schema.NewBoot()}}
	asked := inquiry{}
	tried := false
	for {
		e, err := h.b.read(ctx, h.key)
		free := false
		switch judge(l.me.Boot, e, err) {
		case unclear:
			asked = inquiry{}
		case mine: // an attempt whose answer was lost: written again, to know since when it is trusted
			free = true
		case lost:
			if v, ok := decodeProcess(e); ok && v.Boot == l.me.Boot {
				l.me.Boot = schema.NewBoot() // declared dead before its first answer: a boot never returns
			}
			free = true
		case bucketGone:
			if err := h.b.ensure(ctx, h.v.highestRevision()); err != nil {
				return unresigned(l, tried), err
			}
			free = errors.Is(err, ErrNoKey)
		case other:
			if !first {
				return nil, fmt.Errorf("%w: key %s at revision %d", ErrTakenOver, h.key, e.rev)
			}
			if free, err = h.ask(ctx, &asked, e); err != nil {
				return nil, err
			}
		}
		if free {
			tried = true
			l.rev = e.rev
			if err = h.renewOnce(ctx, l); err == nil {
				return l, nil
			}
			h.c.Log.Debug("key not taken yet", "err", err)
		}
		if !sleep(ctx, askApart) {
			return unresigned(l, tried), context.Cause(ctx)
		}
	}
}

func unresigned(l *life, tried bool) *life {
	if !tried {
		return nil
	}
	return l
}

// How the present holder of a name is asked whether it is there.
const (
	askWait  = 500 * time.Millisecond // for its answer
	askApart = 100 * time.Millisecond // between two questions
	askTimes = 3                      // no responders as often as this: it is gone
)

// inquiry is what is known of the present holder of this node's name.
type inquiry struct {
	rev   schema.Revision
	since time.Time // monotonic; since when the key has been seen at rev
	none  int       // no responders in a row
	said  bool
}

// ask asks the holder of the name whether it is there. It gives true when it is gone: nobody
// listens, or it has not answered and its key has stood still for a lease. An answer is
// ErrNameTaken.
func (h *Holder) ask(ctx context.Context, q *inquiry, e entry) (gone bool, err error) {
	if q.rev != e.rev {
		*q = inquiry{rev: e.rev, since: time.Now(), said: q.said}
	}
	v, _ := decodeProcess(e)
	holder := schema.Process{Node: h.c.Node, Boot: v.Boot}
	err = h.question(ctx, holder)
	switch {
	case err == nil:
		return false, fmt.Errorf("%w: %s %s, state %s, answers: give this process another node name", ErrNameTaken, h.c.Role, holder, v.State)
	case errors.Is(err, nats.ErrNoResponders):
		q.none++
	default:
		q.none = 0
	}
	left := h.b.Config().Lease() - h.b.reach.quiet(q.since, time.Now())
	if !q.said && q.none < askTimes && !errors.Is(err, nats.ErrNoResponders) {
		q.said = true
		h.c.Log.Warn("the node name is held by a process that does not answer: waiting until its lease ends", "boot", string(v.Boot), "left", left)
	}
	return q.none >= askTimes || left <= 0, nil
}

// question sends the empty message that asks a process of our role: are you there?
func (h *Holder) question(ctx context.Context, p schema.Process) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	subject, m := h.b.o.Prefix.Kick(p), schema.Message(&schema.Kick{To: p})
	if h.c.Role == Authority {
		subject, m = h.b.o.Prefix.Authority(p, subjects.Lookup), &schema.Lookup{}
	}
	data, err := schema.Marshal(m)
	if err != nil {
		return err
	}
	_, err = h.b.nc.RequestWithContext(ctx, subject, data)
	return err
}
