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

// How the present holder of a node's name is asked whether it is there.
const (
	askWait  = 500 * time.Millisecond // for its answer
	askApart = 100 * time.Millisecond // between two questions
	askTimes = 3                      // no responders as often as this: it is gone
)

// inquiry is what is known of the present holder of the name.
type inquiry struct {
	rev   schema.Revision
	since time.Time // monotonic; since when the key has been seen at rev
	none  int       // no responders in a row
	said  bool      // that we wait
}

// ask asks the holder of the name once. It gives true when that one is gone: nobody listens, three
// times in a row, or its key has stood still for a lease. An answer is ErrNameTaken.
func (h *Holder) ask(ctx context.Context, q *inquiry, e entry) (gone bool, err error) {
	if q.rev != e.rev {
		*q = inquiry{rev: e.rev, since: time.Now(), said: q.said}
	}
	v, _ := decodeProcess(e)
	holder := schema.Process{Node: h.c.Node, Boot: v.Boot}
	switch err = h.question(ctx, holder); {
	case err == nil:
		return false, fmt.Errorf("%w: %s %s of boot %s, state %s, answers: give this process another node name",
			ErrNameTaken, h.c.Role, holder.Node, holder.Boot, v.State)
	case isClosed(err):
		return false, err
	case errors.Is(err, nats.ErrNoResponders):
		q.none++
		return q.none >= askTimes, nil
	}
	q.none = 0
	left := h.b.Config().Lease() - h.b.reach.quiet(q.since, time.Now())
	if !q.said {
		q.said = true
		h.c.Log.Warn("the node name is held by a process that does not answer: waiting until its lease ends",
			"boot", string(v.Boot), "state", string(v.State), "left", left)
	}
	return left <= 0, nil
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
