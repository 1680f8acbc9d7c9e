package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Conns are the gateway's two connections, so that no kick waits behind messages. The gateway does
// not close them.
type Conns struct {
	Control *nats.Conn // lease, register, sync, kick
	Push    *nats.Conn // messages in both directions, events
}

// Config says how a gateway serves. Node, Listeners and Auth are required.
type Config struct {
	// Node is the operator's name of this process.
	Node schema.NodeID
	// Listeners are where clients come in; Run closes them.
	Listeners []Listener
	// Auth tells who a client is.
	Auth Authenticator
	// Prefix goes in front of every subject; none by default.
	Prefix subjects.Prefix
	// Version of the program, for people; it stands in the gateway's key.
	Version string
	// Origins lists what web pages may connect from beside the gateway's own host: patterns of
	// path.Match over the origin's host, or over scheme://host. *.example.com also matches deeper
	// names, and http.
	Origins []string
	// Page serves what is not /ws. Default: 404.
	Page http.Handler
	// Local says that a Delivery runs in this process, which gets the gateway by WithLocal: the
	// sessions are kept by device too, about 100 bytes each.
	Local bool
	// WatchOff answers watch with watch_off, for good; the mesh's setting of that name has watches rest
	// meanwhile. Look-ups by backends go on.
	WatchOff bool
	// WatchPolicy asks a backend at auth.watch whom a client may watch beside itself and those whom
	// its token lists. No backend, and no answer within Limits.SendTimeout, is a refusal that the
	// client may try again.
	WatchPolicy bool
	Limits      Limits
	Drain       Drain
	// Metrics takes the gateway's metrics. Default: kept to itself.
	Metrics prometheus.Registerer
	// Log gets what an operator should see; discarded by default.
	Log *slog.Logger
}

// Listener is one way in. Its name stands in each route that came in by it.
type Listener struct {
	Name schema.Listener
	net.Listener
}

// Limits bound what clients can make a gateway do. A zero field is its default.
type Limits struct {
	MaxBytes          int64         // of one frame from a client. Default 64 KiB
	Sessions          int           // connections at a time; above it 503. Default 200,000
	Handshakes        int           // connections that are not logged in yet; above it 503. Default 8,192
	HandshakesPerAddr int           // of them from one address other than loopback; above it 429. Default 128
	HelloTimeout      time.Duration // from the upgrade to the hello. Default 10 s
	MessageTimeout    time.Duration // from a message's first frame to its end. Default 10 s
	WriteTimeout      time.Duration // of one socket write; a client that takes longer is too slow. Default 10 s
	QueueFrames       int           // that wait for a client; a push above it is queue_full. Default 512
	QueueBytes        int           // the same in bytes. Default 1 MiB
	Rate              int           // frames a second from one client, pings included. Default 200
	Burst             int           // of them at once. Default 1,000
	SendsInFlight     int           // sends of one client without an answer yet. Default 16
	SendTimeout       time.Duration // for the backend's answer. Default 5 s
	Watches           int           // uids that one client may watch. Default 1,000
	Leaves            int           // ended sessions not yet reported; above it hellos are refused. Default 65,536
}

// Drain says how the gateway ends.
type Drain struct {
	Wait time.Duration // between "not ready" and the first close, for load balancers. Default none
	Rate int           // sessions closed a second. Default 1,000
	Most time.Duration // for the last words to the authorities. Default 5 s
}

func (l Limits) withDefaults() Limits {
	l.MaxBytes = cmp.Or(l.MaxBytes, 64<<10)
	l.Sessions = cmp.Or(l.Sessions, 200_000)
	l.Handshakes = cmp.Or(l.Handshakes, 8192)
	l.HandshakesPerAddr = cmp.Or(l.HandshakesPerAddr, 128)
	l.HelloTimeout = cmp.Or(l.HelloTimeout, 10*time.Second)
	l.MessageTimeout = cmp.Or(l.MessageTimeout, 10*time.Second)
	l.WriteTimeout = cmp.Or(l.WriteTimeout, 10*time.Second)
	l.QueueFrames = cmp.Or(l.QueueFrames, 512)
	l.QueueBytes = cmp.Or(l.QueueBytes, 1<<20)
	l.Rate = cmp.Or(l.Rate, 200)
	l.Burst = cmp.Or(l.Burst, 1000)
	l.SendsInFlight = cmp.Or(l.SendsInFlight, 16)
	l.SendTimeout = cmp.Or(l.SendTimeout, 5*time.Second)
	l.Watches = cmp.Or(l.Watches, 1000)
	l.Leaves = cmp.Or(l.Leaves, 65_536)
	return l
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.withDefaults()
	c.Drain.Rate = cmp.Or(c.Drain.Rate, 1000)
	c.Drain.Most = cmp.Or(c.Drain.Most, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Page == nil {
		c.Page = http.NotFoundHandler()
	}
	return c
}

// ErrInsecure is returned by New where the authenticator believes everything and a listener can be
// reached from other machines.
var ErrInsecure = errors.New("authentication insecure on a listener that is not loopback")

// validate names the field that is wrong.
func (c *Config) validate() error {
	if err := cmp.Or(c.Node.Check(), c.Prefix.Check()); err != nil {
		return err
	}
	if c.Auth == nil {
		return errors.New("config Auth: an authenticator is needed")
	}
	if len(c.Listeners) == 0 {
		return errors.New("config Listeners: at least one is needed")
	}
	names := make(map[schema.Listener]bool)
	for _, l := range c.Listeners {
		if err := l.Name.Check(); err != nil {
			return fmt.Errorf("config Listeners: %w", err)
		}
		if names[l.Name] {
			return fmt.Errorf("config Listeners: two are called %q", l.Name)
		}
		names[l.Name] = true
		if _, insecure := c.Auth.(interface{ localOnly() }); insecure && openToOthers(l.Addr()) {
			return fmt.Errorf("%w: %s", ErrInsecure, l.Addr())
		}
	}
	for _, pattern := range c.Origins {
		if err := CheckOrigin(pattern); err != nil {
			return fmt.Errorf("config Origins: %w", err)
		}
	}
	if c.Drain.Wait < 0 || c.Drain.Rate < 0 || c.Drain.Most < 0 {
		return errors.New("config Drain: Wait, Rate or Most is negative")
	}
	return c.Limits.validate()
}

// CheckOrigin tells what is wrong with one pattern of Config.Origins, or returns nil. A broken one would
// have pages refused that another pattern allows, one with a path would allow none.
func CheckOrigin(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("origin %q: %w", pattern, err)
	}
	host := pattern
	if _, behind, ok := strings.Cut(pattern, "://"); ok {
		host = behind
	}
	if host == "" || strings.Contains(host, "/") {
		return fmt.Errorf("origin %q: it takes a host with its port, with or without a scheme, and no path", pattern)
	}
	return nil
}

func (l *Limits) validate() error {
	for name, n := range map[string]int{
		"MaxBytes": int(l.MaxBytes), "Sessions": l.Sessions, "Handshakes": l.Handshakes, "HandshakesPerAddr": l.HandshakesPerAddr,
		"HelloTimeout": int(l.HelloTimeout), "MessageTimeout": int(l.MessageTimeout), "WriteTimeout": int(l.WriteTimeout),
		"QueueFrames": l.QueueFrames, "QueueBytes": l.QueueBytes, "Rate": l.Rate, "Burst": l.Burst,
		"SendsInFlight": l.SendsInFlight, "SendTimeout": int(l.SendTimeout), "Watches": l.Watches, "Leaves": l.Leaves,
	} {
		if n < 0 {
			return fmt.Errorf("config Limits.%s is negative", name)
		}
	}
	return nil
}
