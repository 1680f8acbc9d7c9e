package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// NATSAuthConfig says how a backend is asked. The zero value works.
type NATSAuthConfig struct {
	// Prefix goes in front of the subject; none by default.
	Prefix subjects.Prefix
	// Timeout is for one answer, the wait for its turn included. Default 3 s: the rest of a
	// login's time is for the mesh.
	Timeout time.Duration
	// InFlight is how many questions may be without an answer; what is more waits for its turn.
	// Default 256.
	InFlight int
}

// NATSAuth asks a backend, on auth.connect, whose a token is. Only the backend's plain word that a
// token is bad stops a client; whatever else goes wrong may pass, and the client comes back.
type NATSAuth struct {
	nc      requester
	subject string
	timeout time.Duration
	places  chan struct{} // one is taken by each question without an answer
}

// requester is what is needed of a *nats.Conn.
type requester interface {
	RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error)
}

// errAnswer is returned when a backend's answer breaks a rule: its clients are not at fault.
var errAnswer = errors.New("backend's answer")

// NewNATSAuth makes an authenticator on a connection, which stays the caller's. It starts nothing.
func NewNATSAuth(nc *nats.Conn, c NATSAuthConfig) *NATSAuth { return newNATSAuth(nc, c) }

func newNATSAuth(nc requester, c NATSAuthConfig) *NATSAuth {
	return &NATSAuth{
		nc: nc, subject: c.Prefix.AuthConnect(), timeout: cmp.Or(c.Timeout, 3*time.Second),
		places: make(chan struct{}, cmp.Or(c.InFlight, 256)),
	}
}

// Authenticate asks once.
func (a *NATSAuth) Authenticate(ctx context.Context, c Credentials) (Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return Identity{}, fmt.Errorf("ask %s: %d questions are without an answer: %w", a.subject, cap(a.places), ctx.Err())
	}
	data, err := json.Marshal(schema.AuthCall{
		Token: c.Token, Device: c.Device, Flag: c.Flag, Level: c.Level.String(), Addr: c.Addr, Listener: c.Listener,
	})
	if err != nil {
		return Identity{}, fmt.Errorf("ask %s: %w", a.subject, err)
	}
	m, err := a.nc.RequestWithContext(ctx, a.subject, data)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return Identity{}, fmt.Errorf("%w: it has %d bytes, too many for a message", ErrBadToken, len(c.Token))
	case err != nil:
		return Identity{}, fmt.Errorf("ask %s: %w", a.subject, err)
	}
	id, err := whose(m, c)
	if err != nil {
		return Identity{}, fmt.Errorf("%s: %w", a.subject, err)
	}
	return id, nil
}

// whose reads a backend's answer.
func whose(m *nats.Msg, c Credentials) (Identity, error) {
	why := m.Header.Get(micro.ErrorHeader)
	switch code := m.Header.Get(micro.ErrorCodeHeader); {
	case code == "401" && why == schema.AuthExpired:
		return Identity{}, ErrTokenExpired
	case code == "401" || code == "403":
		return Identity{}, fmt.Errorf("%w: %s", ErrBadToken, why)
	case code != "" || why != "":
		return Identity{}, fmt.Errorf("%w: error %q %q", errAnswer, code, why)
	}
	if !utf8.Valid(m.Data) {
		return Identity{}, fmt.Errorf("%w: not in UTF-8", errAnswer)
	}
	var said schema.AuthReply
	if err := json.Unmarshal(m.Data, &said); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errAnswer, err)
	}
	id, err := identified(&said, c)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errAnswer, err)
	}
	if !id.Expires.IsZero() && !id.Expires.After(time.Now()) {
		return Identity{}, fmt.Errorf("%w: %s ago", ErrTokenExpired, time.Since(id.Expires).Round(time.Second))
	}
	return id, nil
}

// lastSecond is the end of the year 9999: milliseconds where seconds are meant lie behind it.
const lastSecond = 253_402_300_799

// identified joins what the backend says with what it leaves to the client.
func identified(said *schema.AuthReply, c Credentials) (Identity, error) {
	level, err := c.Level, error(nil)
	if said.Level != "" {
		level, err = schema.ParseLevel(said.Level)
	}
	id := Identity{
		UID: said.UID, Device: cmp.Or(said.Device, c.Device), Flag: cmp.Or(said.Flag, c.Flag), Level: level,
		Gen: said.Gen, TokenID: said.TokenID, Watch: said.Watch,
	}
	switch {
	case err != nil:
		return id, err
	case said.ExpiresAt < 0 || said.ExpiresAt > lastSecond:
		return id, fmt.Errorf("expires_at is %d: it takes unix seconds", said.ExpiresAt)
	case said.ExpiresAt != 0:
		id.Expires = time.Unix(said.ExpiresAt, 0)
	}
	return id, id.wrong()
}
