package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ws "github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// fleet are the users, each with one device. The first 256 are those that the probe looks up, one a
// slot, in the order of the slots.
type fleet struct {
	users []*user
	byUID map[schema.UID]*user
	heard func(to *user, session schema.SessionID, n int) // set before the first push
}

// user is one connected device, as its client sees it.
type user struct {
	uid    schema.UID
	node   schema.NodeID // of its gateway
	client *ws.Client

	mu    sync.Mutex
	lives []life
}

// life is one session of a user.
type life struct {
	session  schema.SessionID
	from, to time.Time        // to is zero while it lasts
	code     schema.CloseCode // how it ended; 0 where the gateway gave it another name
	reason   string
}

// message is the payload of every push.
type message struct {
	N  int        `json:"n"`
	To schema.UID `json:"to"`
}

// newFleet connects users, in turn to each of the gateways.
func newFleet(t *testing.T, gateways []*unit, count int) *fleet {
	t.Helper()
	f := &fleet{byUID: map[schema.UID]*user{}}
	for i, uid := range names(count) {
		g := gateways[i%len(gateways)]
		u := &user{uid: uid, node: schema.NodeID(g.node)}
		var err error
		u.client, err = ws.New(ws.Config{
			URL: "ws://" + g.address + "/ws", Token: ws.FixedToken(string(uid)), Device: "phone",
			BackoffLeast: 100 * time.Millisecond, BackoffMost: time.Second,
			OnState: u.state, OnMessage: func(m ws.Message) { f.message(u, m) },
		})
		require.NoError(t, err)
		f.users = append(f.users, u)
		f.byUID[uid] = u
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	turns := make(chan struct{}, 64) // on their way in at a time
	for _, u := range f.users {
		turns <- struct{}{}
		running.Go(func() { _ = u.client.Run(ctx) }) // how it ended stands in its lives
		running.Go(func() { _ = u.client.Ready(ctx); <-turns })
	}
	return f
}

// names gives the uids: one for each slot, then others.
func names(count int) []schema.UID {
	list := make([]schema.UID, schema.Slots, max(count, schema.Slots))
	found := 0
	for i := 0; found < schema.Slots; i++ {
		uid := schema.UID(fmt.Sprintf("probe-%d", i))
		if s := subjects.SlotOf(uid); list[s] == "" {
			list[s] = uid
			found++
		}
	}
	for i := len(list); i < count; i++ {
		list = append(list, schema.UID(fmt.Sprintf("user-%d", i)))
	}
	return list
}

func (f *fleet) uids() []schema.UID {
	list := make([]schema.UID, len(f.users))
	for i, u := range f.users {
		list[i] = u.uid
	}
	return list
}

// connected counts the users that have a session.
func (f *fleet) connected() (n int) {
	for _, u := range f.users {
		if _, ok := u.client.Session(); ok {
			n++
		}
	}
	return n
}

// of gives the users of one gateway.
func (f *fleet) of(g *unit) (list []*user) {
	for _, u := range f.users {
		if u.node == schema.NodeID(g.node) {
			list = append(list, u)
		}
	}
	return list
}

// endings gives the sessions whose sockets have ended since a moment.
func endings(users []*user, since time.Time) (list []life) {
	for _, u := range users {
		u.mu.Lock()
		for _, l := range u.lives {
			if !l.to.IsZero() && l.to.After(since) && l.code != 0 {
				list = append(list, l)
			}
		}
		u.mu.Unlock()
	}
	return list
}

// state follows the client: a session begins, gets another name, or ends.
func (u *user) state(s ws.State) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	last := len(u.lives) - 1
	if last >= 0 && u.lives[last].to.IsZero() {
		u.lives[last].to = now
		if s.Phase != ws.Connected {
			u.lives[last].code = schema.CloseBye
			if lost, ok := errors.AsType[*ws.LostError](s.Err); ok {
				u.lives[last].code, u.lives[last].reason = lost.Code, lost.Reason
			}
		}
	}
	if s.Phase == ws.Connected {
		u.lives = append(u.lives, life{session: s.Session.Session, from: now})
	}
}

// connectedThrough reports whether one socket was open from a moment to another. A little is added:
// that a socket is gone is seen a little late.
func (u *user) connectedThrough(from, to time.Time) bool {
	const late = 100 * time.Millisecond
	from, to = from.Add(-late), to.Add(late)
	u.mu.Lock()
	defer u.mu.Unlock()
	begun := time.Time{}
	for i, l := range u.lives {
		if i == 0 || u.lives[i-1].code != 0 {
			begun = l.from
		}
		if !begun.After(from) && !l.from.After(to) && (l.to.IsZero() || !l.to.Before(to)) {
			return true
		}
	}
	return false
}

// had reports whether a session was open from a moment to another.
func (u *user) had(session schema.SessionID, from, to time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range u.lives {
		if l.session == session && !l.from.After(from) && (l.to.IsZero() || l.to.After(to)) {
			return true
		}
	}
	return false
}

func (f *fleet) message(u *user, m ws.Message) {
	var body message
	if json.Unmarshal(m.Payload, &body) != nil {
		return
	}
	session, _ := u.client.Session()
	f.heard(u, session.Session, body.N)
}
