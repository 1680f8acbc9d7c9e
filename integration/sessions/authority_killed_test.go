package sessions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// TestAuthorityKilled kills the authority of half of the slots. The server's disconnect event proves
// it, so the other one does not wait for the lease of 3 s; until it knows all, it says unknown.
func TestAuthorityKilled(t *testing.T) {
	m := newMesh(t, quick...)
	c := m.gather(100)
	p := m.probe(c.uids)
	m.eventually("the bucket is not young any more", func() bool { return time.Since(m.made) > 3500*time.Millisecond })
	require.True(t, m.even())

	claims := m.claims("a-2")
	begun := time.Now()
	m.authorities[0].Signal(syscall.SIGKILL)
	moved := claims(schema.Slots / 2).Sub(begun)
	m.eventually("the slots are ready", func() bool {
		return !slices.ContainsFunc(m.slots(), func(s schema.SlotStatus) bool { return s.State != schema.SlotReady })
	})
	looks := p.stop()
	t.Logf("the last of 128 slots claimed %v after the kill", moved.Round(time.Millisecond))
	t.Logf("look-ups of %d users every %v: %s", len(c.uids), probeEvery, window(looks, begun))
	require.Less(t, moved, 1500*time.Millisecond, "takeover waited for the lease")
	for _, l := range looks {
		require.NoError(t, l.err)
		require.Empty(t, l.offline, "connected users were said to be offline %v after the kill", l.begun.Sub(begun))
	}
	c.seen()
	c.settle("after-takeover")
}

// claims watches the slots' keys from now on; what it gives waits until n slots have come to an
// authority, and tells when the last did.
func (m *mesh) claims(node schema.NodeID) func(n int) (last time.Time) {
	m.t.Helper()
	operator := m.nats.Connect(deploy.Operator)
	claimed := make(chan time.Time, schema.Slots)
	_, err := operator.Subscribe(subjects.Prefix("").Changed(), func(msg *nats.Msg) {
		var owner schema.SlotValue
		key, _ := subjects.Prefix("").ParseChanged(msg.Subject)
		_, ok := subjects.ParseSlotKey(key)
		if ok && json.Unmarshal(msg.Data, &owner) == nil && owner.Node == node {
			claimed <- time.Now()
		}
	})
	require.NoError(m.t, err)
	require.NoError(m.t, operator.Flush())
	return func(n int) (last time.Time) {
		late := time.After(patience)
		for range n {
			select {
			case last = <-claimed:
			case <-late:
				require.FailNow(m.t, "slots not claimed in time")
			}
		}
		return last
	}
}

// probeEvery is the time between the starts of two look-ups of a probe.
const probeEvery = 20 * time.Millisecond

// look is one look-up of a probe.
type look struct {
	begun   time.Time
	took    time.Duration
	unknown int
	offline []schema.UID
	err     error
}

// probe looks users up every 20 ms, however long a look-up takes.
type probe struct {
	m    *mesh
	uids []schema.UID
	quit chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	looks []look // in the order in which they were answered
}

func (m *mesh) probe(uids []schema.UID) *probe {
	p := &probe{m: m, uids: uids, quit: make(chan struct{})}
	p.done.Go(p.run)
	return p
}

func (p *probe) run() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.done.Go(p.look)
		case <-p.quit:
			return
		case <-p.m.devices.Done():
			return
		}
	}
}

func (p *probe) look() {
	l := look{begun: time.Now()}
	var users []schema.UserReply
	users, l.err = p.m.lookup(p.uids)
	l.took = time.Since(l.begun)
	for _, u := range users {
		switch u.State {
		case schema.Unknown:
			l.unknown++
		case schema.Offline:
			l.offline = append(l.offline, u.UID)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks = append(p.looks, l)
}

// stop ends the probe and gives what it saw.
func (p *probe) stop() []look {
	close(p.quit)
	p.done.Wait()
	return p.looks
}

// window tells how long some users were unknown, and how many at most.
func window(looks []look, since time.Time) string {
	var first, last time.Time
	var slowest time.Duration
	with, most := 0, 0
	for _, l := range looks {
		slowest = max(slowest, l.took)
		if l.unknown == 0 {
			continue
		}
		with++
		most = max(most, l.unknown)
		if first.IsZero() || l.begun.Before(first) {
			first = l.begun
		}
		if end := l.begun.Add(l.took); end.After(last) {
			last = end
		}
	}
	if with == 0 {
		return fmt.Sprintf("nobody was ever unknown in %d look-ups", len(looks))
	}
	return fmt.Sprintf("up to %d users unknown, from %v to %v after the kill, in %d of %d look-ups; the slowest took %v", most,
		first.Sub(since).Round(time.Millisecond), last.Sub(since).Round(time.Millisecond), with, len(looks), slowest.Round(time.Millisecond))
}
