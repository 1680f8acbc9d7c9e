package delivery

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Message is what is pushed.
type Message struct {
	ID      string          // the sender's, at most schema.MaxMessageID bytes; drawn where empty
	From    schema.UID      // may be empty
	Payload json.RawMessage // any JSON value
	Ack     bool            // the devices are asked to acknowledge
}

// Pushed tells what became of a message.
type Pushed struct {
	ID    string
	Users []PushedUser // aligned with the recipients, duplicates included
	// FallbackFailed counts the unreached users that could not be published where Fallback says.
	FallbackFailed int
}

// PushedUser tells what became of a message for one recipient.
type PushedUser struct {
	UID     schema.UID
	State   schema.UserState
	Why     string        // where the state is unknown, as in Found
	Reached bool          // at least one route has it
	Routes  []PushedRoute // those meant; none where the user is offline or unknown

	skipped bool // a session of the user was the one to be skipped
}

// PushedRoute tells what became of a message on one route.
type PushedRoute struct {
	Route  *schema.Route
	Result schema.PushResult

	by    *schema.Target // who told of the route
	user  int32          // the first place of its user
	ghost bool           // told of by the cache, and not by the look-up that followed
}

// uncertain reports whether a user who was not reached may have the message all the same, or may
// have devices that nobody told of.
func (u *PushedUser) uncertain() bool {
	return u.State == schema.Unknown || slices.ContainsFunc(u.Routes, func(r PushedRoute) bool {
		return r.Result == schema.PushUnknown
	})
}

// frameBytes bounds what a frame takes beside its id, sender, payload and recipients.
const frameBytes = 256

// maxPayload is the largest payload: it fits a message with one recipient of any uid.
const maxPayload = schema.MaxPushBytes - frameBytes - schema.MaxMessageID - 2*schema.MaxUID - rowBytes

// retryAfter are the waits after which a session that was still being set up is tried again.
var retryAfter = [...]time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
	80 * time.Millisecond, 160 * time.Millisecond, 320 * time.Millisecond}

// Push brings a message to every device of the recipients that the options mean: at most once a
// session, in order a caller and session where the caller waits for one push before the next. It
// takes any number of recipients and always tells what became of each, at the latest when ctx
// ends; with little time to look users up, who was not found in it is unknown, and the others are
// sent to. Nothing is kept for who is not reached: see Fallback. The error is schema.ErrBad or
// ErrTooLarge for a call that was not carried out, or says that the mesh can never be asked.
func (d *Delivery) Push(ctx context.Context, m Message, recipients []schema.UID, options ...CallOption) (*Pushed, error) {
	c, err := newCall(d.s.prefix, options)
	if err == nil {
		err = m.check()
	}
	if err == nil {
		err = checkUIDs(recipients)
	}
	if err != nil {
		return nil, err
	}
	return d.push(ctx, m, recipients, c)
}

func (d *Delivery) push(ctx context.Context, m Message, recipients []schema.UID, c *call) (*Pushed, error) {
	if m.ID == "" {
		m.ID = rand.Text()
	}
	begun := time.Now()
	looking, looked := inTime(ctx)
	found, cached, err := d.whereTo(looking, recipients, c)
	looked()
	if err != nil {
		return nil, err
	}
	p := newPlan(found, cached, c.filter)
	if c.room != nil {
		n, err := c.room(p.users)
		if err != nil {
			return nil, err
		}
		if n < len(found) {
			p = newPlan(found[:n], cached, c.filter)
		}
	}
	m.Ack = m.Ack || c.ackWait > 0
	d.carryOut(ctx, m, c, p)
	p.finish()
	d.disown(p)
	failed := d.fallBack(ctx, c.fallback, m, p)
	d.meter.pushed(p, time.Since(begun))
	return &Pushed{ID: m.ID, Users: p.users, FallbackFailed: failed}, nil
}

// inTime leaves a caller with a deadline time to send, a second of it or half of what there is: an
// authority that is silent, or a slot that is waited for, costs those whom the others have found no message.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ends := ctx.Deadline()
	if !ends {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-min(time.Second, time.Until(end)/2)))
}

func (m *Message) check() error {
	switch {
	case len(m.Payload) == 0:
		return bad("payload is missing: it takes any JSON value, null too")
	case len(m.ID) > schema.MaxMessageID || !utf8.ValidString(m.ID):
		return bad("id has %d bytes: it takes at most %d of UTF-8", len(m.ID), schema.MaxMessageID)
	case len(m.Payload) > maxPayload:
		return fmt.Errorf("%w: payload has %d bytes, at most %d fit a message", ErrTooLarge, len(m.Payload), maxPayload)
	case m.From != "":
		if err := m.From.Check(); err != nil {
			return bad("from: %w", err)
		}
	}
	if err := schema.CheckPayload(m.Payload); err != nil {
		return bad("%w", err)
	}
	return nil
}

// frameSize bounds what the message takes without recipients.
func (m *Message) frameSize() int {
	return frameBytes + len(m.ID) + len(m.From) + len(m.Payload)
}
