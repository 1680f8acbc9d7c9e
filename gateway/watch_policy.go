package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/rollcall-mesh/rollcall/schema"
)

// What a backend said that was asked whom a client may watch: the closed set of a metric's label.
const (
	policyAllowed = "allowed"
	policyRefused = "refused"
	policyNone    = "no_backend"
	policyFailed  = "failed" // no answer in time, or none that can be read
)

// forbidden gives the error for a client that may not watch all of uids; nil where it may. Whom the
// token does not list is for the policy to allow, if there is one; nothing that it says is kept.
func (g *Gateway) forbidden(s *session, uids []schema.UID) *schema.ServerFrame {
	may := s.proven()
	unlisted := may.unlisted(uids)
	switch {
	case len(unlisted) == 0:
		return nil
	case g.config.WatchPolicy:
		return g.askPolicy(s, unlisted)
	case may.WatchAny:
		return nil
	}
	return notTheirs(unlisted)
}

func notTheirs(uids []schema.UID) *schema.ServerFrame {
	return &schema.ServerFrame{
		Code: schema.FrameNotAllowed, UIDs: uids,
		Message: fmt.Sprintf("user %q is not this client's to watch", string(uids[0])),
	}
}

// askPolicy asks the backend.
func (g *Gateway) askPolicy(s *session, uids []schema.UID) *schema.ServerFrame {
	data, err := json.Marshal(schema.WatchCall{UID: s.who.UID, Device: s.who.Device, Flag: s.who.Flag, Watch: uids})
	if err != nil {
		return &schema.ServerFrame{Code: schema.FrameInternal, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(s.ctx, g.config.Limits.SendTimeout)
	defer cancel()
	m, err := g.push.RequestWithContext(ctx, g.config.Prefix.AuthWatch(), data)
	outcome, refusal := readPolicy(uids, m, err)
	g.metrics.asked.WithLabelValues(outcome).Inc()
	return refusal
}

// readPolicy reads the backend's answer. Whatever is none can be had again a moment later.
func readPolicy(uids []schema.UID, m *nats.Msg, err error) (outcome string, _ *schema.ServerFrame) {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return policyNone, later(schema.FrameUnavailable, "nobody tells whom clients may watch")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return policyFailed, later(schema.FrameTimeout, "nobody told in time whom this client may watch")
	case err != nil:
		return policyFailed, later(schema.FrameUnavailable, "it cannot be asked whom this client may watch")
	}
	if why := m.Header.Get(micro.ErrorHeader); why != "" {
		return policyFailed, later(schema.FrameUnavailable, schema.Sentence(why))
	}
	var said schema.WatchReply
	if json.Unmarshal(m.Data, &said) != nil || said.Allowed == nil {
		return policyFailed, later(schema.FrameUnavailable, "the answer to whom this client may watch cannot be read")
	}
	allowed := make(map[schema.UID]struct{}, len(said.Allowed))
	for _, u := range said.Allowed {
		allowed[u] = struct{}{}
	}
	refused := slices.DeleteFunc(slices.Clone(uids), func(u schema.UID) bool { _, ok := allowed[u]; return ok })
	if len(refused) > 0 {
		return policyRefused, notTheirs(refused)
	}
	return policyAllowed, nil
}

// later is a refusal that holds for the moment.
func later(code schema.FrameCode, why string) *schema.ServerFrame {
	return &schema.ServerFrame{Code: code, Message: why, Retryable: code.Retryable(), RetryAfterMS: busyRetry.Milliseconds()}
}
