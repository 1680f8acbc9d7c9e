package mesh

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// Device is a Go client: it stays connected for as long as close codes let it.
type Device struct {
	*client.Client
	UID  schema.UID
	Link *bubble.Link // its network
	m    *Mesh
	run  *bubble.Process

	mu       sync.Mutex
	at       *Gateway // where it dials next
	changes  []Change
	messages []Message
	users    map[schema.UID]schema.WatchedUser
}

// Change is one change of a device's connection.
type Change struct {
	At time.Time
	client.State
}

// Message is one that came, and when.
type Message struct {
	At time.Time
	client.Message
}

// Connect starts a device and does not wait for its login.
func (g *Gateway) Connect(uid schema.UID, id schema.DeviceID, change ...func(*client.Config)) *Device {
	t := g.m.T
	t.Helper()
	d := &Device{UID: uid, Link: bubble.NewClient(), m: g.m, at: g, users: make(map[schema.UID]schema.WatchedUser)}
	transport := &http.Transport{DialContext: d.dial}
	c := client.Config{
		URL: "ws://gateway/ws", Token: client.FixedToken(string(uid)), Device: id,
		HTTPClient: &http.Client{Transport: transport},
		OnMessage:  d.take, OnPresence: d.see, OnState: d.note,
	}
	for _, f := range change {
		f(&c)
	}
	var err error
	d.Client, err = client.New(c)
	require.NoError(t, err)
	t.Cleanup(d.Link.Reset)
	t.Cleanup(transport.CloseIdleConnections)
	d.run = bubble.Go(t, d.Run)
	g.m.keep(d)
	return d
}

// Login starts a device and waits for its login.
func (g *Gateway) Login(uid schema.UID, id schema.DeviceID, change ...func(*client.Config)) *Device {
	g.m.T.Helper()
	d := g.Connect(uid, id, change...)
	d.Online()
	return d
}

// Master logs in with that level.
func Master(c *client.Config) { c.Level = schema.Master }

// Online waits until the device has a session, and gives it.
func (d *Device) Online() client.Session {
	d.m.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(d.m.T, d.Ready(ctx), "login of %s", d.UID)
	info, ok := d.Session()
	require.True(d.m.T, ok, "session of %s", d.UID)
	return info
}

// MoveTo has the device dial another gateway from its next connection on.
func (d *Device) MoveTo(g *Gateway) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = g
}

func (d *Device) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.mu.Lock()
	at := d.at
	d.mu.Unlock()
	return at.dial(ctx, d.Link)
}

// Leave ends the device with a goodbye.
func (d *Device) Leave() { d.run.Stop() }

// Kill ends the device as a program that is killed: its connection breaks without a goodbye.
func (d *Device) Kill() {
	d.Link.Cut()
	d.Link.Reset()
	d.run.Stop()
}

// Vanish ends the device as a phone without a battery: the gateway's end stays open.
func (d *Device) Vanish() {
	d.Link.Cut()
	d.run.Stop()
}

// Stopped waits until the device gives up by itself, and gives the code that made it.
func (d *Device) Stopped() schema.CloseCode {
	d.m.T.Helper()
	err := d.run.Wait()
	require.ErrorIs(d.m.T, err, client.ErrStopped)
	lost, ok := errors.AsType[*client.LostError](err)
	require.True(d.m.T, ok, "%v", err)
	return lost.Code
}

// Changes gives what has befallen the device's connection.
func (d *Device) Changes() []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.changes)
}

// Ends gives why its connections ended, one after the other, those too that did not come about.
func (d *Device) Ends() (ends []*client.LostError) {
	for _, c := range d.Changes() {
		if lost, ok := errors.AsType[*client.LostError](c.Err); ok {
			ends = append(ends, lost)
		}
	}
	return ends
}

// Messages gives what came.
func (d *Device) Messages() []Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.messages)
}

// Sees gives what the device was last told of a user that it watches.
func (d *Device) Sees(uid schema.UID) schema.WatchedUser {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.users[uid]
}

func (d *Device) take(m client.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.messages = append(d.messages, Message{time.Now(), m})
}

func (d *Device) see(users []schema.WatchedUser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range users {
		d.users[u.UID] = u
	}
}

func (d *Device) note(s client.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes = append(d.changes, Change{time.Now(), s})
}

// User, Current and Got make it a Client.
func (d *Device) User() schema.UID { return d.UID }

// Current gives the session that the device holds.
func (d *Device) Current() (schema.SessionID, bool) {
	info, ok := d.Session()
	return info.Session, ok
}

// Got counts how often a message came.
func (d *Device) Got(id string) (n int) {
	for _, m := range d.Messages() {
		if m.ID == id {
			n++
		}
	}
	return n
}
