package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Asking are the flags of the commands that ask the service.
type Asking struct {
	Output
	Timeout time.Duration `name:"timeout" default:"10s" help:"How long to wait for an answer."`
}

// serviceError is what the service answered in the place of a result.
type serviceError struct{ code, text string }

func (e *serviceError) Error() string { return fmt.Sprintf("%s (%s)", e.text, e.code) }

// errRefused is returned when the server keeps a subject from this user; it would show as a
// time-out otherwise.
var errRefused = errors.New("NATS refuses this user a subject")

// asker calls the service `presence`, as one operator.
type asker struct {
	nc     *nats.Conn
	prefix subjects.Prefix
	ctx    context.Context // ends with errRefused as its cause when that happens
	end    context.CancelCauseFunc
}

// asker connects. Close it at the end.
func (s *session) asker() (*asker, error) {
	prefix, err := s.cli.prefix()
	if err != nil {
		return nil, err
	}
	d, err := s.cli.dialer(deploy.Operator)
	if err != nil {
		return nil, err
	}
	a := &asker{prefix: prefix}
	a.ctx, a.end = context.WithCancelCause(s.ctx)
	log := s.log(slog.LevelWarn)
	a.nc, err = d.once("rollcall",
		nats.MaxReconnects(-1),
		nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				a.end(fmt.Errorf("%w: %s: connect as one that may, such as operator", errRefused, oneLine(err)))
				return
			}
			logNATSError(log, nc, sub, err)
		}))
	if err != nil {
		a.end(nil)
		return nil, err
	}
	return a, nil
}

func (a *asker) close() {
	a.nc.Close()
	a.end(nil)
}

// ended tells an end that the user wished, nil, from one that the server forced.
func (a *asker) ended() error {
	if cause := context.Cause(a.ctx); errors.Is(cause, errRefused) {
		return cause
	}
	return nil
}

// call asks for one thing and reads the answer into reply.
func (a *asker) call(name string, request, reply any, timeout time.Duration) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	answer, err := a.request(a.prefix.ServiceCall(name), body, timeout)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		return fmt.Errorf("%s: %w", name, &serviceError{code, answer.Header.Get(micro.ErrorHeader)})
	}
	if err := json.Unmarshal(answer.Data, reply); err != nil {
		return fmt.Errorf("answer to %s: %w", name, err)
	}
	return nil
}

func (a *asker) request(subject string, body []byte, timeout time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(a.ctx, timeout)
	defer cancel()
	answer, err := a.nc.RequestWithContext(ctx, subject, body)
	switch {
	case err == nil:
		return answer, nil
	case a.ctx.Err() != nil:
		return nil, context.Cause(a.ctx)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: nobody serves %s: run rollcall delivery (or all)", errUnreachable, subject)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: no answer on %s within %v", errUnreachable, subject, timeout)
	}
	return nil, fmt.Errorf("%w: %w", errUnreachable, err)
}

// query connects, asks one thing and gives the answer.
func query[T any](s *session, name string, request any, timeout time.Duration) (reply T, err error) {
	a, err := s.asker()
	if err != nil {
		return reply, err
	}
	defer a.close()
	return reply, a.call(name, request, &reply, timeout)
}
