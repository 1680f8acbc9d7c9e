package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Fixed times and sizes; doc.go says what they are for.
const (
	connectTimeout = 15 * time.Second
	writeTimeout   = 10 * time.Second
	byeTimeout     = time.Second
	probeGrace     = 5 * time.Second
	keepaliveMost  = 25 * time.Second
	stableAfter    = 10 * time.Second
	rewatchLeast   = time.Second
	rewatchMost    = 30 * time.Second
	retryAfterMost = 5 * time.Minute

	heartbeatDefault = 30 * time.Second
	heartbeatLeast   = 100 * time.Millisecond

	outboxSize = 64
	acksSize   = 1024
	inboxSize  = 256
	seenSize   = 1000
	stampsSize = 10_000
	readLimit  = 1 << 20
)

// Config is what a Client needs. URL and Token are required; the rest works as zero.
type Config struct {
	// URL of a gateway, such as ws://127.0.0.1:8080/ws.
	URL string
	// Token gives the token for hello. It is called before the first connection and after each
	// close with 3005 (token expired); in between its answer is kept. An error is tried again with
	// backoff, one that wraps ErrStopped ends Run.
	Token func(context.Context) (string, error)

	// RefreshBefore is how long before a token's end a new one is asked for and given to the running
	// session, which then goes on: at some moment between that and half of it. Zero is never: the
	// session ends with 3005 and another begins. Token is then called on a goroutine of its own,
	// while Run serves a session; it has to end with its context.
	RefreshBefore time.Duration

	// Device, Flag and Level describe this device; a token that names them wins. The zero values
	// are the empty device, which equals no other, the gateway's default flag, and slave.
	Device schema.DeviceID
	Flag   schema.Flag
	Level  schema.Level
	// Resume names this client's session before a restart of the program, so that conflict
	// policies see the same device and not another login.
	Resume schema.SessionID
	// Name is name/version of the program, for people. Default "rollcall-go".
	Name string
	// Encoding of the frames. Default JSON.
	Encoding schema.Encoding

	// OnMessage gets each message once. Default: dropped (and acked).
	OnMessage func(Message)
	// OnPresence gets what is known of watched users, at first and at each change. While the operator has
	// watches rest they are unknown, with the reason watch_off; then it gets them as they are.
	OnPresence func([]schema.WatchedUser)
	// OnWatchRefused gets users whom the client may not watch any more, which comes out after a
	// reconnect, and why. They are not watched from then on.
	OnWatchRefused func([]schema.UID, error)
	// OnState gets each change of the connection's state.
	OnState func(State)

	// BackoffLeast and BackoffMost bound the waits between connections: the n-th in a row is
	// drawn from 0 to min(BackoffMost, BackoffLeast x 2^n), above what the gateway asks for.
	// Defaults 500 ms and 30 s.
	BackoffLeast, BackoffMost time.Duration

	// HTTPClient dials. Default http.DefaultClient.
	HTTPClient *http.Client
	// Header goes with the handshake, such as an Origin.
	Header http.Header
	// Logger gets what no callback tells. Default: nothing.
	Logger *slog.Logger
}

// withDefaults checks the configuration and fills what is zero; the error names the field.
func (c Config) withDefaults() (Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) || u.Host == "" {
		return c, fmt.Errorf("URL %q: it takes one as ws://HOST:PORT/ws or wss://HOST/ws", c.URL)
	}
	if c.Token == nil {
		return c, errors.New("token: Config.Token has to be a func")
	}
	if err := c.checkDevice(); err != nil {
		return c, err
	}
	fill(&c.BackoffLeast, 500*time.Millisecond)
	fill(&c.BackoffMost, 30*time.Second)
	if c.BackoffLeast < 0 || c.BackoffMost < c.BackoffLeast {
		return c, fmt.Errorf("BackoffMost %v is below BackoffLeast %v", c.BackoffMost, c.BackoffLeast)
	}
	if c.RefreshBefore < 0 {
		return c, fmt.Errorf("RefreshBefore %v is negative", c.RefreshBefore)
	}
	fill(&c.Name, "rollcall-go")
	fill(&c.HTTPClient, http.DefaultClient)
	fill(&c.Logger, slog.New(slog.DiscardHandler))
	if c.OnMessage == nil {
		c.OnMessage = func(Message) {}
	}
	if c.OnPresence == nil {
		c.OnPresence = func([]schema.WatchedUser) {}
	}
	if c.OnWatchRefused == nil {
		c.OnWatchRefused = func([]schema.UID, error) {}
	}
	if c.OnState == nil {
		c.OnState = func(State) {}
	}
	return c, nil
}

func (c Config) checkDevice() error {
	if err := c.Device.Check(); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if c.Flag == "" {
		return nil
	}
	if err := c.Flag.Check(); err != nil {
		return fmt.Errorf("flag: %w", err)
	}
	return nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// FixedToken is a Config.Token that always gives the same.
func FixedToken(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}
