package sessions_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// crowd are devices of many users, and what should have come to them.
type crowd struct {
	m       *mesh
	uids    []schema.UID
	devices map[schema.UID][]*device
	due     map[*device]map[string]int
}

// phone and laptop are the devices of each user of a crowd.
const (
	phone  schema.DeviceID = "phone-1"
	laptop schema.DeviceID = "laptop-1"
)

// gather logs in the phone and the laptop of each of n users, always on different gateways.
func (m *mesh) gather(n int) *crowd {
	m.t.Helper()
	c := &crowd{m: m, devices: make(map[schema.UID][]*device), due: make(map[*device]map[string]int)}
	all := make([][]*device, n)
	begun := time.Now()
	require.NoError(m.t, inParallel(n, 128, func(i int) error {
		uid := schema.UID(fmt.Sprintf("user %d", i)) // a space: its token is not the uid itself
		p := m.connect(m.gateways[i%2], uid, phone, as("app", schema.Master))
		l := m.connect(m.gateways[(i+1)%2], uid, laptop, as("desktop", schema.Slave))
		all[i] = []*device{p, l}
		if err := p.login(); err != nil {
			return err
		}
		return l.login()
	}))
	m.t.Logf("%d sessions of %d users logged in in %v", 2*n, n, time.Since(begun).Round(time.Millisecond))
	for _, devices := range all {
		uid := devices[0].uid
		c.uids = append(c.uids, uid)
		c.devices[uid] = devices
		for _, d := range devices {
			c.due[d] = make(map[string]int)
		}
	}
	return c
}

// which chooses devices.
type which func(*device) bool

func everyDevice(*device) bool { return true }

func only(id schema.DeviceID) which { return func(d *device) bool { return d.id == id } }

// open gives a user's devices that hold a session, those chosen, by session.
func (c *crowd) open(uid schema.UID, chosen which) map[schema.SessionID]*device {
	open := make(map[schema.SessionID]*device)
	for _, d := range c.devices[uid] {
		if s, ok := d.current(); ok && chosen(d) {
			open[s] = d
		}
	}
	return open
}

// seen requires that a look-up shows exactly the sessions that the devices hold, as they are.
func (c *crowd) seen() {
	t := c.m.t
	t.Helper()
	begun := time.Now()
	users := c.m.found(c.uids)
	t.Logf("look-up of %d users, %v", len(c.uids), time.Since(begun).Round(time.Millisecond))
	for i, u := range users {
		open := c.open(c.uids[i], everyDevice)
		want := schema.Online
		if len(open) == 0 {
			want = schema.Offline
		}
		require.Equal(t, c.uids[i], u.UID)
		require.Equal(t, want, u.State, u.UID)
		require.False(t, u.Partial || u.Suspect, u.UID)
		require.Len(t, u.Routes, len(open), u.UID)
		for _, r := range u.Routes {
			d := open[r.Session]
			require.NotNil(t, d, "session %s of %s is seen and not open", r.Session, u.UID)
			s, _ := d.Session()
			require.Equal(t, []any{s.Gateway.Node, s.Gateway.Boot, s.Device, s.Flag, s.Level.String(), schema.Listener("ws")},
				[]any{r.Node, r.Boot, r.Device, r.Flag, r.Level, r.Listener})
			require.Positive(t, r.TTLMS)
		}
	}
}

// pushed pushes and requires the result that those chosen, and no others, get it: "written" for
// each, aligned with the recipients.
func (c *crowd) pushed(call schema.PushCall, chosen which) {
	t := c.m.t
	t.Helper()
	begun := time.Now()
	results, err := c.m.push(call)
	require.NoError(t, err)
	t.Logf("push %s to %d recipients, %v", call.ID, len(call.UIDs), time.Since(begun).Round(time.Millisecond))
	require.NoError(t, c.check(call, chosen, results))
	c.note(call, chosen)
}

// check compares a push's results with what they should be.
func (c *crowd) check(call schema.PushCall, chosen which, results []schema.PushedReply) error {
	if len(results) != len(call.UIDs) {
		return fmt.Errorf("%d results for %d recipients", len(results), len(call.UIDs))
	}
	for i, r := range results {
		open := c.open(call.UIDs[i], chosen)
		if r.UID != call.UIDs[i] || r.Reached != (len(open) > 0) || len(r.Routes) != len(open) {
			return fmt.Errorf("push %s to %s: %+v, where %d sessions are meant", call.ID, call.UIDs[i], r, len(open))
		}
		for _, route := range r.Routes {
			if open[route.Session] == nil || route.Result != schema.PushWritten {
				return fmt.Errorf("push %s to %s: %+v", call.ID, r.UID, route)
			}
		}
	}
	return nil
}

// note writes down what a push should have brought: once to each session, however often its user
// was named.
func (c *crowd) note(call schema.PushCall, chosen which) {
	for _, uid := range slices.Compact(slices.Sorted(slices.Values(call.UIDs))) {
		for _, d := range c.open(uid, chosen) {
			c.due[d][call.ID]++
		}
	}
}

// settle sends a last message to all, waits until everybody who is left has it, and requires that
// every ledger holds exactly what was due: what was sent before it has come before it.
func (c *crowd) settle(id string) {
	t := c.m.t
	t.Helper()
	c.pushed(schema.PushCall{UIDs: c.uids, ID: id, Payload: []byte(`"last"`)}, everyDevice)
	messages := 0
	for _, uid := range c.uids {
		for _, d := range c.devices[uid] {
			if _, open := d.current(); open {
				require.NoError(t, d.has(id))
			}
			got := d.ledger()
			if !maps.Equal(c.due[d], got) {
				require.Equal(t, c.due[d], got, "%s of %s", d.id, uid)
			}
			for _, n := range got {
				messages += n
			}
		}
	}
	t.Logf("%d messages, each once where it should be and nowhere else", messages)
}
