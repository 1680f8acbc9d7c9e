package sessions_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

const (
	pairs = 10_000
	batch = 500 // pairs at the same time
)

// pair is one device that logs in twice.
type pair [2]*device

// tally counts what became of the logins.
type tally struct {
	connected int // and left alone
	replaced  int // connected, then closed with 3503
	refused   int // told to come back later
	first     int // pairs of which the login on gw-1 is left
	looks     int // look-ups of whole batches meanwhile
}

// TestPairsOfLogins: one device logs in on two gateways at the same instant, 10,000 times, each time
// another user. Never are two committed, always exactly one is left, and each login is either
// connected or told to come back.
func TestPairsOfLogins(t *testing.T) {
	m := newMesh(t, steady...)
	begun := time.Now()
	var all tally
	for n := range pairs / batch {
		m.pairUp(n, &all)
	}
	took := time.Since(begun)
	t.Logf("%d pairs in %v: %+v", pairs, took.Round(time.Millisecond), all)
	require.Equal(t, pairs, all.connected, "exactly one of each is left")
	require.Equal(t, pairs, all.replaced+all.refused)
	require.Less(t, took, time.Minute)
}

// pairUp logs in one batch of pairs, and requires that one of each is left: held by its client, seen
// by a look-up, reached by a message.
func (m *mesh) pairUp(n int, all *tally) {
	m.t.Helper()
	uids := make([]schema.UID, batch)
	for i := range uids {
		uids[i] = schema.UID(fmt.Sprintf("pair-%d", n*batch+i))
	}
	stop := m.neverTwo(uids)
	list := make([]pair, batch)
	for i, uid := range uids {
		list[i] = m.pairOf(uid)
	}
	require.NoError(m.t, inParallel(batch, batch, func(i int) error { return list[i].settle() }))
	all.looks += stop()

	left := make([]*device, batch)
	for i, p := range list {
		left[i] = p.left(m.t, all)
	}
	for i, u := range m.found(uids) {
		session, _ := left[i].current()
		require.Len(m.t, u.Routes, 1, "%s: %+v", u.UID, u)
		require.Equal(m.t, session, u.Routes[0].Session)
	}
	m.reach(uids, left)
	for _, p := range list {
		p[0].leave()
		p[1].leave()
	}
}

// pairOf has one device say hello to both gateways at the same instant: each connection waits with
// it until the other is up too.
func (m *mesh) pairOf(uid schema.UID) (p pair) {
	both, up := make(chan struct{}), new(atomic.Int32)
	hold := func() {
		if up.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-m.devices.Done():
		}
	}
	for i, g := range m.gateways {
		p[i] = m.connect(g, uid, phone, as("app", schema.Master), holding(hold))
	}
	return p
}

// settle waits until both logins have their verdict, and not both are left.
func (p pair) settle() error {
	for _, d := range p {
		if _, _, err := d.verdict(); err != nil {
			return err
		}
	}
	late := time.After(patience)
	for {
		ended, changed := p[0].state()
		other, otherChanged := p[1].state()
		if ended || other {
			return nil
		}
		select {
		case <-changed:
		case <-otherChanged:
		case <-late:
			return fmt.Errorf("%s: both logins are left", p[0].uid)
		}
	}
}

// state reports whether the connection has ended, and what is closed when that changes.
func (d *device) state() (ended bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.end != nil, d.changed
}

// left gives the login that is left, and counts what became of both.
func (p pair) left(t *testing.T, all *tally) (left *device) {
	for i, d := range p {
		in, end, err := d.verdict()
		require.NoError(t, err)
		switch {
		case in && end == nil:
			require.Nil(t, left, "%s: both logins are left", d.uid)
			left = d
			all.connected++
			all.first += 1 - i
		case in:
			require.Equal(t, schema.CloseReplaced, end.Code, "%s was connected, then closed with %v", d.uid, end)
			all.replaced++
		default:
			require.Equal(t, schema.ActionReconnect, end.Action(), "%v", end)
			require.Positive(t, end.RetryAfter, "%v", end)
			all.refused++
		}
	}
	require.NotNil(t, left, "%s: no login is left", p[0].uid)
	return left
}

// neverTwo looks users up over and over until stop, which fails the test where one was ever seen
// with two sessions, and gives how often it has looked.
func (m *mesh) neverTwo(uids []schema.UID) (stop func() (looks int)) {
	ctx, cancel := context.WithCancel(m.devices)
	var looks int
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for ; failed == nil && ctx.Err() == nil; looks++ {
			failed = m.atMostOne(uids)
			select {
			case <-pace.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		require.NoError(m.t, failed)
		return looks
	}
}

func (m *mesh) atMostOne(uids []schema.UID) error {
	users, err := m.lookup(uids)
	for _, u := range users {
		if len(u.Routes) > 1 {
			return fmt.Errorf("%s has two sessions of one device: %+v", u.UID, u.Routes)
		}
	}
	return err
}

// reach pushes to users and requires that it comes to the devices that are left.
func (m *mesh) reach(uids []schema.UID, left []*device) {
	m.t.Helper()
	results, err := m.push(schema.PushCall{UIDs: uids, ID: "to-those-left", Payload: []byte("1")})
	require.NoError(m.t, err)
	for i, r := range results {
		session, _ := left[i].current()
		require.Len(m.t, r.Routes, 1, "%+v", r)
		require.Equal(m.t, session, r.Routes[0].Session)
		require.Equal(m.t, schema.PushWritten, r.Routes[0].Result)
		require.NoError(m.t, left[i].has("to-those-left"))
	}
}
