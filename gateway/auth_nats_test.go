package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// answering is a backend that gives one answer to everything.
func answering(m *nats.Msg, err error) *fakeBus {
	return &fakeBus{onSend: func(string, []byte) (*nats.Msg, error) { return m, err }}
}

func microError(code, text string) *nats.Msg {
	return &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}}}
}

func TestNATSAuthAsks(t *testing.T) {
	var asked string
	bus := &fakeBus{onSend: func(_ string, data []byte) (*nats.Msg, error) {
		asked = string(data)
		return &nats.Msg{Data: []byte(`{"uid":"alice"}`)}, nil
	}}
	a := newNATSAuth(bus, NATSAuthConfig{Prefix: "eu"})
	id, err := a.Authenticate(t.Context(), Credentials{
		Token: "t", Device: "mine", Flag: "web", Level: schema.Master, Addr: "192.0.2.1:9", Listener: "ws",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"eu.auth.connect"}, bus.asked())
	require.JSONEq(t, `{"token":"t","device":"mine","flag":"web","level":"master","addr":"192.0.2.1:9","listener":"ws"}`, asked)
	require.Equal(t, Identity{UID: "alice", Device: "mine", Flag: "web", Level: schema.Master}, id, "what the backend leaves open is the client's")
}

func TestNATSAuthTakesAnswers(t *testing.T) {
	soon := time.Now().Add(time.Minute).Truncate(time.Second)
	all, err := json.Marshal(schema.AuthReply{
		UID: "alice", Device: "phone", Flag: "app", Level: "slave", Gen: 7, TokenID: "t1", ExpiresAt: soon.Unix(), Watch: []schema.UID{"bob"},
	})
	require.NoError(t, err)
	for answer, want := range map[string]Identity{
		string(all): {UID: "alice", Device: "phone", Flag: "app", Gen: 7, TokenID: "t1", Expires: soon, Watch: []schema.UID{"bob"}},
		`{"uid":"alice","device":"","flag":"","level":"","expires_at":0,"watch":null,"new":1}`: {UID: "alice", Device: "mine", Flag: "web", Level: schema.Master},
	} {
		id, err := try(t, newNATSAuth(answering(&nats.Msg{Data: []byte(answer)}, nil), NATSAuthConfig{}), "t")
		require.NoError(t, err, answer)
		require.Equal(t, want, id, answer)
	}
}

// TestNATSAuthRefuses: only the backend's word that a token is bad is the client's fault.
func TestNATSAuthRefuses(t *testing.T) {
	const bad, expired, later = "bad", "expired", "later"
	kind := func(err error) string {
		switch {
		case errors.Is(err, ErrBadToken):
			return bad
		case errors.Is(err, ErrTokenExpired):
			return expired
		}
		return later
	}
	for name, c := range map[string]struct {
		m    *nats.Msg
		err  error
		want string
	}{
		"401":                  {m: microError("401", "who is that"), want: bad},
		"403":                  {m: microError("403", "banned"), want: bad},
		"401 expired":          {m: microError("401", "expired"), want: expired},
		"403 expired":          {m: microError("403", "expired"), want: bad},
		"expires_at is past":   {m: &nats.Msg{Data: []byte(`{"uid":"alice","expires_at":1}`)}, want: expired},
		"token for no message": {err: nats.ErrMaxPayload, want: bad},

		"400":                      {m: microError("400", "no token"), want: later},
		"500":                      {m: microError("500", "database"), want: later},
		"an error without code":    {m: microError("", "database"), want: later},
		"an error beside a uid":    {m: &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {"500"}}, Data: []byte(`{"uid":"alice"}`)}, want: later},
		"nobody there":             {err: nats.ErrNoResponders, want: later},
		"NATS lost":                {err: nats.ErrReconnectBufExceeded, want: later},
		"nothing":                  {m: &nats.Msg{}, want: later},
		"no JSON":                  {m: &nats.Msg{Data: []byte(`alice`)}, want: later},
		"two values":               {m: &nats.Msg{Data: []byte(`{"uid":"alice"}{}`)}, want: later},
		"null":                     {m: &nats.Msg{Data: []byte(`null`)}, want: later},
		"no uid":                   {m: &nats.Msg{Data: []byte(`{}`)}, want: later},
		"uid of another type":      {m: &nats.Msg{Data: []byte(`{"uid":7}`)}, want: later},
		"uid with a control":       {m: &nats.Msg{Data: []byte(`{"uid":"a\nb"}`)}, want: later},
		"uid not in UTF-8":         {m: &nats.Msg{Data: []byte("{\"uid\":\"a\xff\"}")}, want: later},
		"long device":              {m: &nats.Msg{Data: []byte(`{"uid":"alice","device":"` + strings.Repeat("d", 129) + `"}`)}, want: later},
		"flag in upper case":       {m: &nats.Msg{Data: []byte(`{"uid":"alice","flag":"APP"}`)}, want: later},
		"unknown level":            {m: &nats.Msg{Data: []byte(`{"uid":"alice","level":"boss"}`)}, want: later},
		"gen below zero":           {m: &nats.Msg{Data: []byte(`{"uid":"alice","gen":-1}`)}, want: later},
		"long token id":            {m: &nats.Msg{Data: []byte(`{"uid":"alice","token_id":"` + strings.Repeat("t", 257) + `"}`)}, want: later},
		"expires before 1970":      {m: &nats.Msg{Data: []byte(`{"uid":"alice","expires_at":-1}`)}, want: later},
		"expires in milliseconds":  {m: &nats.Msg{Data: []byte(`{"uid":"alice","expires_at":1790000000000}`)}, want: later},
		"watch names nobody":       {m: &nats.Msg{Data: []byte(`{"uid":"alice","watch":[""]}`)}, want: later},
		"watch names half a world": {m: &nats.Msg{Data: []byte(`{"uid":"alice","watch":["b"` + strings.Repeat(`,"b"`, schema.MaxAuthWatch) + `]}`)}, want: later},
	} {
		id, err := try(t, newNATSAuth(answering(c.m, c.err), NATSAuthConfig{}), "t")
		require.Error(t, err, name)
		require.Equal(t, c.want, kind(err), "%s: %v", name, err)
		require.Zero(t, id, name)
	}
}

// TestNATSAuthWaitsItsTurn: a backend that is silent gets so many questions and no more, and nobody
// waits longer than an answer may take.
func TestNATSAuthWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := answering(nil, nil)
		a := newNATSAuth(bus, NATSAuthConfig{InFlight: 3})
		start := time.Now()
		ended := make(chan error, 10)
		for range 10 {
			go func() {
				_, err := try(t, a, "t")
				ended <- err
			}()
		}
		synctest.Wait()
		require.Len(t, bus.asked(), 3)
		for range 10 {
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		}
		require.Equal(t, 3*time.Second, time.Since(start))

		bus.onSend = func(string, []byte) (*nats.Msg, error) { return &nats.Msg{Data: []byte(`{"uid":"alice"}`)}, nil }
		_, err := try(t, a, "t")
		require.NoError(t, err, "places come back")
	})
}
