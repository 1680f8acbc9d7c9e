package delivery

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/rollcall-mesh/rollcall/schema"
)

// apiRoot is where the calls of the service stand as HTTP: POST /v1/lookup and so on.
const apiRoot = "/v1/"

// MinAPIKey is how many characters a key of the HTTP API has at least.
const MinAPIKey = 16

// api serves the calls of a Service over HTTP.
type api struct {
	s     *Service
	keys  [][sha256.Size]byte
	calls map[string]endpoint
}

// Handler gives the service's calls as POST /v1/<call>, with the JSON of the NATS service, its limits
// and its workers, for who has one of the keys as a bearer token; several are for changing them.
// Errors are {"error":{"code":..,"message":".."}} with the code as HTTP status. The error is
// schema.ErrBad where there is no key, or one of fewer than MinAPIKey characters.
func (s *Service) Handler(keys []string) (http.Handler, error) {
	if len(keys) == 0 {
		return nil, bad("the HTTP API takes a key: whoever can reach it could send to all users")
	}
	a := &api{s: s, calls: map[string]endpoint{}}
	for _, k := range keys {
		if len(k) < MinAPIKey {
			return nil, bad("a key of the HTTP API has at least %d characters, one has %d", MinAPIKey, len(k))
		}
		a.keys = append(a.keys, sha256.Sum256([]byte(k)))
	}
	for _, e := range s.endpoints() {
		a.calls[e.name] = e
	}
	return a, nil
}

// ServeHTTP answers one call.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, body, refused := a.request(w, r)
	if refused != nil {
		a.s.d.meter.refused(refused.Error.Code)
		refused.write(w)
		return
	}
	answer, err := a.serve(r.Context(), e, body)
	code := a.s.ended(e, err)
	if err != nil {
		refuse(code, err.Error()).write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the asker is gone: nobody is left to tell
}

// serve does a call. It has a place meanwhile, and none while its asker sends the request or takes the
// answer: who is slow at that takes nobody's place.
func (a *api) serve(ctx context.Context, e endpoint, body []byte) ([]byte, error) {
	if !a.s.enter() {
		return nil, errBusy
	}
	defer a.s.leave()
	return a.s.do(ctx, e, body)
}

// request reads a call, the key before anything else. Who has none is not kept connected.
func (a *api) request(w http.ResponseWriter, r *http.Request) (e endpoint, body []byte, refused *refusal) {
	if !a.allowed(r.Header.Get("Authorization")) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="rollcall"`)
		w.Header().Set("Connection", "close")
		return e, nil, refuse(http.StatusUnauthorized, "the header Authorization with a bearer key is missing, or the key is not one of the right ones")
	}
	e, ok := a.calls[strings.TrimPrefix(r.URL.Path, apiRoot)]
	if !ok {
		return e, nil, refuse(http.StatusNotFound, fmt.Sprintf("no call %q: there are %slookup, push, kick, sessions, explain, slots and stats", r.URL.Path, apiRoot))
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return e, nil, refuse(http.StatusMethodNotAllowed, "calls are POST requests")
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if kind, _, err := mime.ParseMediaType(kind); err != nil || kind != "application/json" {
			return e, nil, refuse(http.StatusUnsupportedMediaType, "requests are application/json")
		}
	}
	most := int64(a.s.room() + headroom)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return e, nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", most))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return e, nil, refuse(http.StatusRequestTimeout, "the request did not come in time")
	case err != nil:
		return e, nil, refuse(http.StatusBadRequest, "the request could not be read")
	}
	return e, body, nil
}

// allowed compares with every key, in a time that says nothing of them.
func (a *api) allowed(header string) bool {
	scheme, key, _ := strings.Cut(header, " ")
	sum, good := sha256.Sum256([]byte(strings.TrimSpace(key))), 0
	for i := range a.keys {
		good |= subtle.ConstantTimeCompare(sum[:], a.keys[i][:])
	}
	return good == 1 && strings.EqualFold(scheme, "Bearer")
}

// refusal is an error as an answer.
type refusal struct {
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func refuse(code int, message string) *refusal {
	r := &refusal{}
	r.Error.Code, r.Error.Message = code, schema.Sentence(message)
	return r
}

func (r *refusal) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if r.Error.Code == http.StatusTooManyRequests || r.Error.Code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(r.Error.Code)
	text, _ := json.Marshal(r) // a number and a text always encode
	_, _ = w.Write(text)       // the asker is gone: nobody is left to tell
}
