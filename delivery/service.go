package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/schema"
)

// ServiceConfig configures a Service. The zero value works.
type ServiceConfig struct {
	Version string        // shown by `nats micro`, as in 1.2.3; default 0.0.0
	Workers int           // calls served at once; more are answered 429. Default 2048
	Timeout time.Duration // of a call, beside its await_ms and ack_wait_ms. Default 10 s
	Log     *slog.Logger  // default: nowhere
}

// Service is the NATS micro service "presence": what Delivery does, in JSON, for any language.
type Service struct {
	// static
	d      *Delivery
	config ServiceConfig

	places chan struct{} // one is taken by each call that is being served
}

// headroom is kept free in each answer for its head, in bytes.
const headroom = 1024

// NewService makes the service of d, on d's connection. It starts nothing.
func NewService(d *Delivery, config ServiceConfig) *Service {
	if config.Version == "" {
		config.Version = "0.0.0"
	}
	if config.Workers == 0 {
		config.Workers = 2048
	}
	if config.Timeout == 0 {
		config.Timeout = 10 * time.Second
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{d: d, config: config, places: make(chan struct{}, config.Workers)}
}

// Run serves until ctx ends, or the connection is closed for good. What has come by then is
// answered before it returns.
func (s *Service) Run(ctx context.Context) error {
	closed := make(chan struct{})
	svc, err := micro.AddService(s.d.nc, micro.Config{
		Name:        s.d.s.prefix.Service(),
		Version:     s.config.Version,
		Description: "who is online where, and a message to each of their devices",
		DoneHandler: func(micro.Service) { close(closed) },
	})
	if err != nil {
		return fmt.Errorf("start service %s: %w", s.d.s.prefix.Service(), err)
	}
	defer s.finish()
	for _, e := range s.endpoints() {
		subject := micro.WithEndpointSubject(s.d.s.prefix.ServiceCall(e.name))
		if err := svc.AddEndpoint(e.name, s.handler(ctx, e), subject, micro.WithEndpointMetadata(e.metadata())); err != nil {
			return errors.Join(fmt.Errorf("serve %s: %w", e.name, err), svc.Stop())
		}
	}
	s.announce(ctx)
	select {
	case <-ctx.Done():
		if err := svc.Stop(); err != nil {
			return fmt.Errorf("stop service %s: %w", s.d.s.prefix.Service(), err)
		}
		<-closed
		return nil
	case <-closed:
		return fmt.Errorf("service %s: %w", s.d.s.prefix.Service(), ErrClosed)
	}
}

// announce says that calls are served, once the server has heard of it: who waits for that and calls then
// is not told that nobody answers.
func (s *Service) announce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, subscribeWait)
	defer cancel()
	if err := s.d.nc.FlushWithContext(ctx); err != nil {
		s.config.Log.Warn("the server has not confirmed the service's subscriptions: they stand when it is back", "err", err)
	}
	s.config.Log.Info("serving", "service", s.d.s.prefix.Service())
}

// endpoint is one call of the service: from the request's JSON to the answer's.
type endpoint struct {
	name  string
	serve func(ctx context.Context, body []byte) ([]byte, error)
	does  string // for people
	takes any    // of the request's type
	gives []any  // of the answer's types
}

func (s *Service) endpoints() []endpoint {
	return []endpoint{
		{"lookup", s.lookup, "where the devices of users are", schema.LookupCall{}, []any{schema.LookupReply{}}},
		{"push", s.push, "a message to the devices of users, and what became of it", schema.PushCall{}, []any{schema.PushReply{}, schema.PushCounts{}}},
		{"kick", s.kick, "ends sessions of a user", schema.KickCall{}, []any{schema.KickReply{}}},
		{"sessions", s.sessions, "the sessions of a gateway, told by itself", schema.SessionsCall{}, []any{schema.SessionsReply{}}},
		{"explain", s.explain, "all that the authority holds of a user", schema.ExplainCall{}, []any{schema.Explanation{}}},
		{"slots", s.showSlots, "who owns which slot, in what state, and the processes", struct{}{}, []any{schema.SlotsReply{}}},
		{"stats", s.stats, "users and sessions online, by node and flag", struct{}{}, []any{schema.StatsReply{}}},
	}
}

// handler serves each request of an endpoint beside the others: none waits for a slow one.
func (s *Service) handler(ctx context.Context, e endpoint) micro.HandlerFunc {
	return func(r micro.Request) {
		if !s.enter() {
			s.answer(e, r, nil, errBusy)
			return
		}
		go func() {
			defer s.leave()
			body, err := s.do(ctx, e, r.Data())
			s.answer(e, r, body, err)
		}()
	}
}

// enter takes a place, if there is one.
func (s *Service) enter() bool {
	select {
	case s.places <- struct{}{}:
		s.d.meter.serving.Inc()
		return true
	default:
		return false
	}
}

func (s *Service) leave() {
	s.d.meter.serving.Dec()
	<-s.places
}

// do serves a call that has a place, however it came: its answer fits a message.
func (s *Service) do(ctx context.Context, e endpoint, request []byte) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, s.config.Timeout+maxAwait+schema.MaxAckWait)
	defer cancel()
	body, err := e.serve(within, request)
	if most := s.room() + headroom; err == nil && len(body) > most {
		return nil, fmt.Errorf("%w: the answer has %d bytes, %d fit a message of this NATS server", ErrTooLarge, len(body), most)
	}
	return body, err
}

// ended counts a call, gives the code of how it ended, and tells the operator of an error that is not
// the caller's.
func (s *Service) ended(e endpoint, err error) int {
	code := status(err)
	s.d.meter.called(e.name, code)
	if code >= 500 {
		s.config.Log.Warn("call failed", "call", e.name, "code", code, "err", err)
	}
	return code
}

// finish waits for the calls being served: it takes every place, for good.
func (s *Service) finish() {
	for range cap(s.places) {
		s.places <- struct{}{}
	}
}

// errBusy is returned when as many calls are being served as are allowed.
var errBusy = errors.New("too many calls at once, try again in a moment")

func (s *Service) answer(e endpoint, r micro.Request, body []byte, err error) {
	code := s.ended(e, err)
	if !s.d.s.prefix.Answerable(r.Reply()) {
		return
	}
	if err != nil {
		// Not r.Error: it notes the error in the request for the endpoint's statistics, which micro
		// reads as soon as the handler has returned, and that is before the call is served.
		err = r.Respond(nil, micro.WithHeaders(micro.Headers{
			micro.ErrorHeader:     []string{schema.Sentence(err.Error())},
			micro.ErrorCodeHeader: []string{strconv.Itoa(code)},
		}))
	} else {
		err = r.Respond(body)
	}
	if err != nil {
		s.config.Log.Debug("answer not sent", "call", e.name, "err", err)
	}
}

// room is how many bytes the results in an answer may have.
func (s *Service) room() int {
	most := s.d.nc.MaxPayload()
	if most == 0 { // not connected yet: what servers take by default
		most = 1 << 20
	}
	return int(most) - headroom
}

// decode reads a request; unknown fields are ignored, and no body at all is an empty object.
func decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		return bad("request is not in UTF-8")
	}
	err := json.Unmarshal(body, into)
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if mistyped.Field == "" {
			return bad("request is of type %s: it takes an object", mistyped.Value)
		}
		return bad("%s cannot be of type %s", mistyped.Field, mistyped.Value)
	}
	if err != nil {
		return bad("request is not JSON: %w", err)
	}
	return nil
}
