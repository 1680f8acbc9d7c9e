package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// device is a Go client of one gateway that logs in once: a login that is refused is not tried
// again.
type device struct {
	*client.Client
	m     *mesh
	uid   schema.UID
	id    schema.DeviceID
	hold  func() // called before the hello leaves
	leave context.CancelFunc
	begun time.Time // of its dial

	mu      sync.Mutex
	heard   []byte            // every byte that came
	session *client.Session   // the login
	in      time.Time         // when it came
	end     *client.LostError // why the connection ended, or did not come about
	changed chan struct{}     // closed and replaced when one of the above changes
}

// option changes a device before it begins.
type option func(*device, *client.Config)

// as sets what the hello says.
func as(flag schema.Flag, level schema.Level) option {
	return func(_ *device, c *client.Config) { c.Flag, c.Level = flag, level }
}

// holding has the hello wait.
func holding(hold func()) option { return func(d *device, _ *client.Config) { d.hold = hold } }

// connect starts a device; it goes on until the test ends, or leave.
func (m *mesh) connect(g *gateway, uid schema.UID, id schema.DeviceID, options ...option) *device {
	d := &device{m: m, uid: uid, id: id, hold: func() {}, changed: make(chan struct{}), begun: time.Now()}
	config := client.Config{
		URL: "ws://" + g.address + "/ws", Token: client.FixedToken(string(uid)), Device: id, OnState: d.note,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: d.dial}},
	}
	for _, o := range options {
		o(d, &config)
	}
	var err error
	d.Client, err = client.New(config)
	require.NoError(m.t, err)
	var ctx context.Context
	ctx, d.leave = context.WithCancel(m.devices)
	m.running.Go(func() { _ = d.Run(ctx) }) // how it ends is noted
	return d
}

func (d *device) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &line{Conn: conn, d: d}, nil
}

// line is a device's connection.
type line struct {
	net.Conn
	d      *device
	writes int // the first is the handshake, the second the hello
}

func (l *line) Write(b []byte) (int, error) {
	if l.writes++; l.writes == 2 {
		l.d.hold()
	}
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.d.change(func() { l.d.heard = append(l.d.heard, b[:n]...) })
	return n, err
}

func (d *device) change(what func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what()
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *device) note(s client.State) {
	switch lost, ok := errors.AsType[*client.LostError](s.Err); {
	case s.Phase == client.Connected:
		d.change(func() { d.session, d.in = &s.Session, time.Now() })
	case ok:
		d.leave()
		d.change(func() { d.end = lost })
	case s.Err != nil:
		d.leave()
		d.change(func() { d.end = &client.LostError{Code: schema.CloseAbnormal, Err: s.Err} })
	}
}

// wait waits until is, called with the lock held, gives true.
func (d *device) wait(what string, is func() bool) error {
	late := time.After(patience)
	for {
		d.mu.Lock()
		ok, changed, end := is(), d.changed, d.end
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-late:
			return fmt.Errorf("%s of %s: not in time: %s (end: %v)", d.id, d.uid, what, end)
		}
	}
}

// login waits until the device is in.
func (d *device) login() error {
	in, refused, err := d.verdict()
	if err == nil && !in {
		err = fmt.Errorf("%s of %s is not in: %w", d.id, d.uid, refused)
	}
	return err
}

// verdict waits until the device is in, or is not: why.
func (d *device) verdict() (in bool, refused *client.LostError, err error) {
	err = d.wait("login", func() bool {
		in, refused = d.session != nil, d.end
		return in || refused != nil
	})
	return in, refused, err
}

// ended waits for the connection's end.
func (d *device) ended() (end *client.LostError, err error) {
	err = d.wait("end", func() bool { end = d.end; return end != nil })
	return end, err
}

// current gives the session that the device holds.
func (d *device) current() (id schema.SessionID, open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == nil {
		return "", false
	}
	return d.session.Session, d.end == nil
}

// message matches a message in what came over a connection: text frames of a server are not masked.
var message = regexp.MustCompile(`"type":"recv","id":"([^"]*)"`)

// ledger counts the messages that came, by id.
func (d *device) ledger() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := make(map[string]int)
	for _, found := range message.FindAllSubmatch(d.heard, -1) {
		got[string(found[1])]++
	}
	return got
}

// has waits until a message has come.
func (d *device) has(id string) error {
	return d.wait("message "+id, func() bool {
		for _, found := range message.FindAllSubmatch(d.heard, -1) {
			if string(found[1]) == id {
				return true
			}
		}
		return false
	})
}
