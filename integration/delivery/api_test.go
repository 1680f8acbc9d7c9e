package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
)

const oneKey, otherKey = "0123456789abcdef", "a key that comes after"

// posts makes requests to the HTTP API.
type posts struct {
	t *testing.T
	http.Handler
}

func (m *mesh) posts(config delivery.ServiceConfig) *posts {
	m.t.Helper()
	h, err := delivery.NewService(m.Delivery, config).Handler([]string{oneKey, otherKey})
	require.NoError(m.t, err)
	return &posts{m.t, h}
}

func (p *posts) do(method, path, key, kind, body string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	require.NoError(p.t, err)
	if key != "" {
		r.Header.Set("Authorization", key)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

// call makes a good request, and gives the status and the body.
func (p *posts) call(name, body string) (int, string) {
	p.t.Helper()
	answer := p.do("POST", "/v1/"+name, "Bearer "+otherKey, "application/json", body)
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, "application/json", answer.Header.Get("Content-Type"))
	return answer.StatusCode, string(text)
}

// What the service answers over NATS, its HTTP API answers too.
func TestAPIAnswersAsTheService(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		b, p := m.serve(delivery.ServiceConfig{}), m.posts(delivery.ServiceConfig{})
		for _, c := range [][2]string{
			{"lookup", `{"uids":["alice","bob"]}`},
			{"push", `{"uids":["alice","bob"],"payload":{"n":1},"id":"m1"}`},
			{"kick", `{"uid":"bob"}`},
			{"explain", `{"uid":"bob"}`},
			{"stats", ``},
			{"lookup", `{"uids":[]}`},
			{"lookup", `{"uids":["` + strings.Repeat("x", 257) + `"]}`},
			{"lookup", `{"uids":` + uidList(1001, func(int) string { return "u" }) + `}`},
			{"push", `{"uids":["alice"]}`},
			{"push", `[]`},
			{"sessions", `{"node":"none"}`},
		} {
			status, got := p.call(c[0], c[1])
			want := b.call(c[0], c[1])
			if status == http.StatusOK {
				require.Equal(t, want, got, "%s %s", c[0], c[1])
				continue
			}
			var refused struct {
				Error struct {
					Code    int
					Message string
				}
			}
			require.NoError(t, json.Unmarshal([]byte(got), &refused))
			require.Equal(t, want, fmt.Sprint(refused.Error.Code, " ", refused.Error.Message))
			require.Equal(t, status, refused.Error.Code)
		}
		status, got := p.call("slots", "")
		require.Equal(t, 200, status)
		require.Contains(t, got, `"slots":[`)
	})
}

func TestAPIRefuses(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		p := m.posts(delivery.ServiceConfig{})
		const good = "Bearer " + oneKey
		for name, c := range map[string]struct {
			method, path, key, kind, body string
			status                        int
			header, value                 string
		}{
			"good":                 {"POST", "/v1/stats", good, "", "", 200, "", ""},
			"charset":              {"POST", "/v1/stats", good, "application/json; charset=utf-8", "{}", 200, "", ""},
			"scheme in small":      {"POST", "/v1/stats", "bearer " + otherKey, "", "", 200, "", ""},
			"no key":               {"POST", "/v1/stats", "", "", "", 401, "WWW-Authenticate", `Bearer realm="rollcall"`},
			"another key":          {"POST", "/v1/stats", "Bearer 0123456789abcdeg", "", "", 401, "WWW-Authenticate", `Bearer realm="rollcall"`},
			"a part":               {"POST", "/v1/stats", "Bearer 0123456789abcde", "", "", 401, "", ""},
			"both":                 {"POST", "/v1/stats", good + otherKey, "", "", 401, "", ""},
			"an empty one":         {"POST", "/v1/stats", "Bearer ", "", "", 401, "", ""},
			"another scheme":       {"POST", "/v1/stats", "Basic " + oneKey, "", "", 401, "", ""},
			"no such call":         {"POST", "/v1/drop", good, "", "", 404, "", ""},
			"no such call, no key": {"POST", "/v1/drop", "", "", "", 401, "", ""},
			"deeper":               {"POST", "/v1/stats/x", good, "", "", 404, "", ""},
			"root":                 {"POST", "/", good, "", "", 404, "", ""},
			"GET":                  {"GET", "/v1/stats", good, "", "", 405, "Allow", "POST"},
			"a form":               {"POST", "/v1/stats", good, "application/x-www-form-urlencoded", "a=b", 415, "", ""},
			"no type at all":       {"POST", "/v1/stats", good, "/", "{}", 415, "", ""},
			"too large":            {"POST", "/v1/lookup", good, "", strings.Repeat(" ", 1<<20+1), 413, "", ""},
			"not JSON":             {"POST", "/v1/lookup", good, "", "{", 400, "", ""},
		} {
			t.Log(name)
			answer := p.do(c.method, c.path, c.key, c.kind, c.body)
			require.Equal(t, c.status, answer.StatusCode)
			if c.header != "" {
				require.Equal(t, c.value, answer.Header.Get(c.header))
			}
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.Equal(t, c.status != 200, strings.HasPrefix(string(text), `{"error":{"code":`), "%s", text)
		}
		s := delivery.NewService(m.Delivery, delivery.ServiceConfig{})
		for _, keys := range [][]string{nil, {}, {""}, {oneKey, "short"}} {
			_, err := s.Handler(keys)
			require.ErrorIs(t, err, schema.ErrBad)
		}
	})
}

// late is a body of which the rest does not come in time.
type late struct{ io.Reader }

func (l late) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// Whoever has no key is not kept connected; whose request breaks off is told why.
func TestAPIAndSlowSenders(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		p := m.posts(delivery.ServiceConfig{Workers: 1})
		require.Equal(t, "close", p.do("POST", "/v1/stats", "", "", "{}").Header.Get("Connection"))
		require.Empty(t, p.do("POST", "/v1/stats", "Bearer "+oneKey, "", "{}").Header.Get("Connection"))
		for want, rest := range map[int]io.Reader{http.StatusRequestTimeout: late{strings.NewReader(`{"uids":`)}, http.StatusBadRequest: iotest.ErrReader(io.ErrUnexpectedEOF)} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", "/v1/lookup", rest)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+oneKey)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			require.Equal(t, want, w.Code)
			require.Contains(t, w.Body.String(), `"message":"the request`)
		}
	})
}

// reader is who reads an answer as late as it likes.
type reader struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (r *reader) Write(b []byte) (int, error) {
	<-r.reads
	return r.ResponseRecorder.Write(b)
}

// Who takes its answer slowly, or its refusal, holds up nobody: with one place the next call is served.
func TestAPIAndSlowReaders(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		p := m.posts(delivery.ServiceConfig{Workers: 1})
		reads := make(chan struct{})
		var slow sync.WaitGroup
		for _, body := range []string{`{"uids":["alice"]}`, `{`, `{"uids":["bob"]}`} {
			w := &reader{httptest.NewRecorder(), reads}
			slow.Go(func() {
				r, err := http.NewRequestWithContext(context.Background(), "POST", "/v1/lookup", strings.NewReader(body))
				require.NoError(t, err)
				r.Header.Set("Authorization", "Bearer "+oneKey)
				p.ServeHTTP(w, r)
			})
			synctest.Wait()
		}
		status, text := p.call("lookup", `{"uids":["carol"]}`)
		require.Equal(t, http.StatusOK, status, text)
		close(reads)
		slow.Wait()
	})
}

func TestAPIIsBounded(t *testing.T) {
	run(t, func(t *testing.T, m *mesh) {
		g := m.gateway("gw-1")
		g.login(t, "alice", "phone", "app")
		p := m.posts(delivery.ServiceConfig{Workers: 1})
		g.set(func(g *gateway) { g.silent = true })
		slow := make(chan int)
		go func() {
			status, _ := p.call("push", `{"uids":["alice"],"payload":1}`)
			slow <- status
		}()
		time.Sleep(time.Millisecond)
		answer := p.do("POST", "/v1/stats", "Bearer "+oneKey, "", "")
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		require.Equal(t, "1", answer.Header.Get("Retry-After"))
		require.Equal(t, 200, <-slow)
	})
}
