package page_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/cmd/app/page"
)

func get(t *testing.T, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return rec
}

func TestHandler(t *testing.T) {
	h := page.Handler([]page.Gateway{{Node: "gw-1", URL: "ws://127.0.0.1:8080/ws"}, {Node: "gw-2", URL: "ws://127.0.0.1:8081/ws"}})
	for path, want := range map[string]struct{ kind, content string }{
		"/":            {"text/html; charset=utf-8", `<script type="module" src="/page.js">`},
		"/page.js":     {"text/javascript; charset=utf-8", `from "/rollcall.js"`},
		"/style.css":   {"text/css; charset=utf-8", "prefers-color-scheme"},
		"/rollcall.js": {"text/javascript; charset=utf-8", "export class Client"},
		"/rules.js":    {"text/javascript; charset=utf-8", "export const CLOSE_CODES"},
		"/demo.json":   {"application/json", `{"gateways":[{"node":"gw-1","url":"ws://127.0.0.1:8080/ws"},{"node":"gw-2","url":"ws://127.0.0.1:8081/ws"}]}`},
	} {
		got := get(t, h, "GET", path)
		require.Equal(t, http.StatusOK, got.Code, path)
		require.Equal(t, want.kind, got.Header().Get("Content-Type"), path)
		require.Contains(t, got.Body.String(), want.content, path)
		require.Contains(t, got.Header().Get("Content-Security-Policy"),
			"connect-src 'self' ws://127.0.0.1:8080 ws://127.0.0.1:8081;", path)
	}
	require.Equal(t, http.StatusNotFound, get(t, h, "GET", "/other").Code)
	require.Equal(t, http.StatusMethodNotAllowed, get(t, h, "POST", "/").Code)
	require.JSONEq(t, `{"gateways":[]}`, get(t, page.Handler(nil), "GET", "/demo.json").Body.String())
}

// What the policy would block must not be there.
func TestNothingInlineOrForeign(t *testing.T) {
	h := page.Handler(nil)
	html := get(t, h, "GET", "/").Body.String()
	for _, wrong := range []string{`(?i)<style`, `(?i)\sstyle=`, `(?i)\son\w+=`, `(?i)<script(?:\s+type="module")?>`, `(?i)(src|href)="(https?:)?//`} {
		require.NotRegexp(t, regexp.MustCompile(wrong), html)
	}
	require.NotRegexp(t, regexp.MustCompile(`(?i)url\((?:"|')?(https?:)?//|@import`), get(t, h, "GET", "/style.css").Body.String())
}

// The parts that browser tests address as pane-N-<part>.
func TestPromisedParts(t *testing.T) {
	html := get(t, page.Handler(nil), "GET", "/").Body.String()
	require.Contains(t, html, `data-testid="add-pane"`)
	for _, part := range []string{"uid", "gateway", "device", "flag", "level", "connect", "to", "text", "send", "log", "state", "presence", "remove"} {
		require.Contains(t, html, `data-part="`+part+`"`)
	}
}
