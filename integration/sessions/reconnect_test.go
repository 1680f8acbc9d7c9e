package sessions_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// returning is how many sessions, of a user each, come back at once.
var returning = flag.Int("returning", 1000, "sessions in TestMassReconnect: 5000 in the full form")

// eachWatches is how many users each of them watches.
const eachWatches = 20

// flock is sessions of as many users, each of whom watches the next few; they come back by
// themselves when their gateway goes.
type flock struct {
	mu      sync.Mutex
	frames  int                                 // presence frames
	users   int                                 // in them
	seen    []map[schema.UID]schema.WatchedUser // by watcher
	events  int
	probes  []time.Duration // look-ups of 100 users
	unknown int             // answers of them
}

func flockName(i int) schema.UID { return schema.UID(fmt.Sprintf("bird-%d", i%*returning)) }

// fly connects all and has each watch.
func (f *flock) fly(m *mesh, g *gateway) {
	m.t.Helper()
	f.seen = make([]map[schema.UID]schema.WatchedUser, *returning)
	begun := time.Now()
	require.NoError(m.t, inParallel(*returning, 64, func(i int) error {
		f.seen[i] = make(map[schema.UID]schema.WatchedUser, eachWatches)
		c, err := client.New(client.Config{
			URL: "ws://" + g.address + "/ws", Token: client.FixedToken(string(flockName(i))), Device: phone,
			OnPresence: func(users []schema.WatchedUser) { f.presence(i, users) },
		})
		if err != nil {
			return err
		}
		m.running.Go(func() { _ = c.Run(m.devices) }) // it ends with the test
		ctx, cancel := context.WithTimeout(m.devices, patience)
		defer cancel()
		if err := c.Ready(ctx); err != nil {
			return err
		}
		var uids []schema.UID
		for n := range eachWatches {
			uids = append(uids, flockName(i+1+n))
		}
		return c.Watch(ctx, uids...)
	}))
	m.t.Logf("%d sessions that watch %d users each are in after %v", *returning, eachWatches, time.Since(begun).Round(time.Millisecond))
}

func (f *flock) presence(i int, users []schema.WatchedUser) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames++
	f.users += len(users)
	for _, u := range users {
		f.seen[i][u.UID] = u
	}
}

// whole reports whether every watcher sees all whom it watches online.
func (f *flock) whole() bool { return len(f.missing()) == 0 }

// missing gives who is not seen online by whom.
func (f *flock) missing() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, seen := range f.seen {
		for n := range eachWatches {
			if u := seen[flockName(i+1+n)]; u.State != string(schema.Online) {
				list = append(list, fmt.Sprintf("%s sees %s %s (%s) %v", flockName(i), flockName(i+1+n), u.State, u.Reason, u.Stamp))
			}
		}
	}
	return list
}

// reset forgets what was counted so far.
func (f *flock) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames, f.users, f.events = 0, 0, 0
}

// probe looks 100 users up, again and again, until ctx ends.
func (f *flock) probe(ctx context.Context, m *mesh) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	uids := make([]schema.UID, 100)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for i := range uids {
			uids[i] = flockName(n*len(uids) + i)
		}
		begun := time.Now()
		users, err := m.lookup(uids)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		f.mu.Lock()
		f.probes = append(f.probes, took)
		for _, u := range users {
			if u.State == schema.Unknown {
				f.unknown++
			}
		}
		f.mu.Unlock()
	}
}

// TestMassReconnect kills the gateway of sessions that watch each other, and starts it again (CI has 5,000
// of them, with nothing beside; go test 1,000, as it does other things meanwhile). All come back and see each other; what that takes in events and presence frames is bounded, and
// look-ups are answered throughout.
func TestMassReconnect(t *testing.T) {
	m := newMesh(t, steady...)
	g := m.gateways[0]
	f := new(flock)
	_, err := m.backend.Subscribe(subjects.Prefix("").AllEvents(), func(*nats.Msg) { f.mu.Lock(); f.events++; f.mu.Unlock() })
	require.NoError(t, err)
	require.NoError(t, m.backend.Flush())
	f.fly(m, g)
	m.eventually("everybody sees everybody", f.whole)
	f.reset()

	ctx, stop := context.WithCancel(t.Context())
	probed := make(chan error, 1)
	go func() { probed <- f.probe(ctx, m) }()
	begun := time.Now()
	g.Signal(syscall.SIGKILL)
	g.Wait()
	m.startGateway(g.node, g.address).serves()
	uids := make([]schema.UID, *returning)
	for i := range uids {
		uids[i] = flockName(i)
	}
	m.eventually("all are back", func() bool {
		return !slices.ContainsFunc(m.found(uids), func(u schema.UserReply) bool { return u.State != schema.Online })
	})
	back := time.Since(begun)
	defer func() {
		if t.Failed() {
			missing := f.missing()
			t.Logf("%d are not seen: %v", len(missing), missing[:min(len(missing), 20)])
			asked, err := m.lookup(uids[:50])
			t.Log(asked, err)
		}
	}()
	m.eventually("everybody sees everybody again", f.whole)
	took := time.Since(begun)
	stop()
	require.NoError(t, <-probed, "look-ups are answered")

	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.probes)
	t.Logf("all back after %v, seen after %v; %d events (%.1f a session), %d presence frames (%.1f a session) that named %d users",
		back.Round(time.Millisecond), took.Round(time.Millisecond), f.events, float64(f.events)/float64(*returning),
		f.frames, float64(f.frames)/float64(*returning), f.users)
	t.Logf("%d look-ups of 100 users meanwhile: p50 %v, p99 %v; %d answers unknown", len(f.probes),
		f.probes[len(f.probes)/2].Round(time.Microsecond), f.probes[len(f.probes)*99/100].Round(time.Microsecond), f.unknown)
	require.GreaterOrEqual(t, len(f.probes), int(took.Seconds()), "look-ups go on")
	require.LessOrEqual(t, f.unknown, len(f.probes), "one in a hundred answers, on a busy machine")
	require.LessOrEqual(t, f.events, 3**returning+schema.Slots, "gone, perhaps offline, and back")
	windows := int(took/(200*time.Millisecond)) + 2
	require.LessOrEqual(t, f.frames, *returning*min(windows, 1+3*eachWatches), "one in 200 ms at most")
	require.LessOrEqual(t, f.users, *returning*eachWatches*4, "at first, and no more often than users change")
}
