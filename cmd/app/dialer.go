package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

// dialer opens NATS connections for one user.
type dialer struct {
	servers string // a comma-separated list; empty: those of the context
	context string // of the nats CLI; empty: none
	options []nats.Option
}

// once dials one time: for a command.
func (d *dialer) once(name string, extra ...nats.Option) (*nats.Conn, error) {
	nc, err := d.dial(append([]nats.Option{nats.Name(name), nats.Timeout(5 * time.Second)}, extra...))
	if err != nil && !errors.Is(err, errUsage) {
		err = fmt.Errorf("%w: NATS at %s: %w", errUnreachable, d.where(), err)
	}
	return nc, err
}

// sayAgain is the time between two lines that say that NATS is still not there.
const sayAgain = 10 * time.Second

// wait dials until NATS is there or ctx ends, and says what it is waiting for. Both it and, after
// the first connection, nats.go wait by redial between attempts.
func (d *dialer) wait(ctx context.Context, name string, redial redial, l *links, log *slog.Logger) (*nats.Conn, error) {
	options := append(roleOptions(redial, l, log), nats.Name(name))
	var said time.Time
	for attempt := 0; ; attempt++ {
		nc, err := d.dial(options)
		if err == nil {
			if !said.IsZero() {
				log.Info("NATS is there", "name", name, "server", nc.ConnectedUrlRedacted())
			}
			return nc, nil
		}
		if errors.Is(err, errUsage) {
			return nil, err
		}
		if time.Since(said) >= sayAgain {
			said = time.Now()
			log.Warn("waiting for NATS", "at", d.where(), "name", name, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(redial(attempt)):
		}
	}
}

func (d *dialer) dial(options []nats.Option) (*nats.Conn, error) {
	options = append(d.options[:len(d.options):len(d.options)], options...)
	if d.context == "" {
		return nats.Connect(d.servers, options...)
	}
	if d.servers != "" {
		options = append(options, servers(d.servers))
	}
	known := false // options are applied after the context was read
	nc, _, err := natscontext.Connect(d.context, append(options, func(*nats.Options) error {
		known = true
		return nil
	})...)
	if err != nil && !known {
		err = fmt.Errorf("%w: --context: %w", errUsage, err)
	}
	return nc, err
}

// servers puts these servers in the place of the context's.
func servers(list string) nats.Option {
	return func(o *nats.Options) error {
		o.Url, o.Servers = "", strings.Split(list, ",")
		return nil
	}
}

// where says in one word where NATS is looked for, without secrets.
func (d *dialer) where() string {
	if d.servers == "" {
		return "context " + d.context
	}
	list := strings.Split(d.servers, ",")
	for i, server := range list {
		if u, err := url.Parse(server); err == nil {
			list[i] = u.Redacted()
		}
	}
	return strings.Join(list, ",")
}

// roleOptions are those of the connections of a long-running role.
func roleOptions(redial redial, l *links, log *slog.Logger) []nats.Option {
	var last recent
	return []nats.Option{
		nats.ReconnectBufSize(-1), // nothing is written after a reconnect that was meant before it
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a password that was changed too early is put right by its operator
		nats.CustomReconnectDelay(func(attempts int) time.Duration { return redial(attempts - 1) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost", "name", nc.Opts.Name, "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			l.reconnects.Inc()
			log.Info("NATS connection back", "name", nc.Opts.Name, "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			l.failed(err)
			if linkError(err) == linkLate || last.anew(err.Error()+" "+subjectOf(sub)) {
				logNATSError(log, nc, sub, err)
			}
		}),
	}
}

// recent are the errors that the log has had in the last minute: who is refused a subject, or at the door,
// tries on, several times a second. The zero value is ready. At recentMost all are forgotten.
type recent struct {
	mu   sync.Mutex
	told map[string]time.Time
}

const recentMost = 256

// anew reports whether an error is to be told, and notes that it was.
func (r *recent) anew(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.told[what]; ok && time.Since(last) < time.Minute {
		return false
	}
	if r.told == nil || len(r.told) >= recentMost {
		r.told = make(map[string]time.Time)
	}
	r.told[what] = time.Now()
	return true
}

func subjectOf(sub *nats.Subscription) string {
	if sub == nil {
		return ""
	}
	return sub.Subject
}

// logNATSError says what came over no request: above all that the server refuses a subject, which
// the one who published there would only see as a time-out.
func logNATSError(log *slog.Logger, nc *nats.Conn, sub *nats.Subscription, err error) {
	args := []any{"name", nc.Opts.Name, "err", err}
	if subject := subjectOf(sub); subject != "" {
		args = append(args, "subject", subject)
	}
	if errors.Is(err, nats.ErrAuthorization) {
		log.Error("NATS does not let this process in: put its user and password right, or the server's; it tries on", args...)
		return
	}
	switch linkError(err) {
	case linkLate: // each has an inbox of its own, and after a lost connection there may be thousands
		log.Debug("an answer came too late", args...)
	case linkRefused:
		log.Error("NATS refuses this user a subject: compare its permissions with deploy/nats.conf", args...)
	case linkSlow:
		log.Error("messages were dropped: this process reads too slowly", args...)
	default:
		log.Warn("NATS error", args...)
	}
}
