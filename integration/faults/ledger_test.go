package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
)

// ledger is the book of all pushes: what the sender was told, and what the receivers got.
type ledger struct {
	fleet *fleet

	mu      sync.Mutex
	pushes  []*push
	skipped int // not sent, since too many had no answer
	wrong   []string
}

// push is one message to one user.
type push struct {
	to             *user
	sent, answered time.Time // answered is zero without an answer
	failed         string    // what the service answered in the place of a result
	state          schema.UserState
	routes         []schema.RoutePushed
	got            []schema.SessionID // the sessions that have received it
}

// inFlight bounds the pushes that wait for an answer.
const inFlight = 1024

// startPushes pushes to random users until the test ends.
func startPushes(t *testing.T, nc *nats.Conn, f *fleet, perSecond int) *ledger {
	t.Helper()
	b := &ledger{fleet: f}
	f.heard = b.heard
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		const beat = 10 * time.Millisecond
		tick := time.NewTicker(beat)
		defer tick.Stop()
		places := make(chan struct{}, inFlight)
		for due := 0.0; ; due -= float64(int(due)) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			due += float64(perSecond) * beat.Seconds()
			for range int(due) {
				select {
				case places <- struct{}{}:
					running.Go(func() { b.push(ctx, nc); <-places })
				default:
					b.mu.Lock()
					b.skipped++
					b.mu.Unlock()
				}
			}
		}
	})
	return b
}

// push sends one message and notes what becomes of it.
func (b *ledger) push(ctx context.Context, nc *nats.Conn) {
	p := &push{to: b.fleet.users[rand.IntN(len(b.fleet.users))], sent: time.Now()}
	b.mu.Lock()
	n := len(b.pushes)
	b.pushes = append(b.pushes, p)
	b.mu.Unlock()
	payload, _ := json.Marshal(message{n, p.to.uid}) // always encodes
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := call[schema.PushReply](ctx, nc, "push", schema.PushCall{
		UIDs: []schema.UID{p.to.uid}, Payload: payload, ID: fmt.Sprintf("m%d", n), From: "faults"})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || len(reply.Results) != 1 {
		p.failed = fmt.Sprint(err)
		return
	}
	p.answered, p.state, p.routes = time.Now(), reply.Results[0].State, reply.Results[0].Routes
}

// heard notes that a user has received a message.
func (b *ledger) heard(u *user, session schema.SessionID, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n >= len(b.pushes) || b.pushes[n].to != u {
		b.wrong = append(b.wrong, fmt.Sprintf("message %d at %s", n, u.uid))
		return
	}
	b.pushes[n].got = append(b.pushes[n].got, session)
}

// open counts the pushes sent by a moment that have neither an answer nor failed yet.
func (b *ledger) open(by time.Time) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pushes {
		if !p.sent.After(by) && p.answered.IsZero() && p.failed == "" {
			n++
		}
	}
	return n
}

// reached reports whether the last pushes, those of some time, were all sent after a moment, and written.
func (b *ledger) reached(after time.Time, span time.Duration) bool {
	to := time.Now().Add(-200 * time.Millisecond) // most of the later ones have no answer yet
	a := b.account(to.Add(-span), to)
	return to.Add(-span).After(after) && a.sent > 0 && a.sent == a.written
}

// account is what the ledger says of the pushes sent in a span of time.
type account struct {
	sent, written, unknown, offline, failed, skipped int
	falseOffline                                     int      // said to be offline, and connected all the while
	wrong                                            []string // written to a session that it was not for
	lost                                             []string // written to a socket that stayed up, and not received
}

func (a account) String() string {
	return fmt.Sprintf("pushes %d: written %d, unknown %d, offline %d, failed %d, not sent %d; of a connected user offline %d; to a wrong session %d; lost with the socket up %d",
		a.sent, a.written, a.unknown, a.offline, a.failed, a.skipped, a.falseOffline, len(a.wrong), len(a.lost))
}

// account closes the book over a span of time. Messages on their way are given a moment by the
// caller.
func (b *ledger) account(from, to time.Time) (a account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.skipped, a.wrong = b.skipped, b.wrong
	for n, p := range b.pushes {
		if p.sent.Before(from) || p.sent.After(to) {
			continue
		}
		a.sent++
		b.judge(n, p, &a)
	}
	return a
}

func (b *ledger) judge(n int, p *push, a *account) {
	if p.answered.IsZero() {
		a.failed++
		return
	}
	written := map[schema.SessionID]bool{}
	for _, r := range p.routes {
		if r.Result != schema.PushWritten {
			continue
		}
		written[r.Session] = true
		got := false
		for _, s := range p.got {
			got = got || s == r.Session
		}
		if !got && p.to.had(r.Session, p.sent, p.answered.Add(time.Second)) {
			a.lost = append(a.lost, fmt.Sprintf("message %d to %s, session %s, got by %v", n, p.to.uid, r.Session, p.got))
		}
	}
	for _, s := range p.got {
		if p.state != schema.Unknown && !written[s] && len(written) > 0 {
			a.wrong = append(a.wrong, fmt.Sprintf("message %d to %s came to session %s, written to %v", n, p.to.uid, s, written))
		}
	}
	switch {
	case len(written) > 0:
		a.written++
	case p.state == schema.Offline:
		a.offline++
		if p.to.connectedThrough(p.sent, p.answered) {
			a.falseOffline++
		}
	default:
		a.unknown++
	}
}
