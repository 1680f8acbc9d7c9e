// Package page is the demo's web page: a few users side by side, each a WebSocket client of its
// own, on a gateway of choice. The gateways serve it in demo mode only.
//
//	GET /            index.html      the page
//	GET /page.js     page.js         its behaviour
//	GET /style.css   style.css       its looks
//	GET /rollcall.js                 the client, from gateway/client/js
//	GET /demo.json                   {"gateways":[{"node":"gw-1","url":"ws://127.0.0.1:8080/ws"}]}
//
// Nothing is inline and nothing comes from elsewhere, so that a strict Content-Security-Policy
// holds; sockets go to the listed gateways only. It starts no goroutine and keeps no state.
//
// What a browser test may rely on are the data-testid attributes: add-pane, and for pane N
// (counted from 1, never reused) pane-N, pane-N-uid, -gateway, -device, -flag, -level, -connect,
// -to, -text, -send, -log, -state, -presence, -remove. pane-N-state carries data-phase; log entries
// carry data-kind (sent, received, event, closed; the last with data-code, the close code), per-device
// results data-result, and presence entries data-uid and data-state. data-phase is idle, connecting,
// connected, waiting or stopped. The page opened with #connect connects its panes at once.
package page

import (
	"embed"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/rollcall-mesh/rollcall/gateway/client/js"
)

//go:embed index.html page.js style.css
var files embed.FS

// Gateway is one gateway that the page offers.
type Gateway struct {
	Node string `json:"node"`
	URL  string `json:"url"` // of its WebSocket, such as ws://127.0.0.1:8080/ws
}

// Handler serves the page and what belongs to it, and 404 for all else.
func Handler(gateways []Gateway) http.Handler {
	if gateways == nil {
		gateways = []Gateway{}
	}
	list, _ := json.Marshal(map[string]any{"gateways": gateways}) // strings: never fails
	mux := http.NewServeMux()
	serve := func(path, kind string, body []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Write(body)
		})
	}
	serve("/{$}", "text/html; charset=utf-8", file("index.html"))
	serve("/page.js", "text/javascript; charset=utf-8", file("page.js"))
	serve("/style.css", "text/css; charset=utf-8", file("style.css"))
	serve("/rollcall.js", "text/javascript; charset=utf-8", js.Module())
	serve("/demo.json", "application/json", list)
	return withHeaders(mux, policy(gateways))
}

func file(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // embedded above
	}
	return b
}

// policy permits the page's own files and sockets to its gateways, nothing else.
func policy(gateways []Gateway) string {
	connect := []string{"'self'"}
	for _, g := range gateways {
		if u, err := url.Parse(g.URL); err == nil && u.Host != "" && !strings.ContainsAny(u.Host, " ;,") {
			connect = append(connect, u.Scheme+"://"+u.Host)
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " +
		strings.Join(connect, " ") + "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

func withHeaders(next http.Handler, policy string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}
