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
	serve("/rules.js", "text/javascript; charset=utf-8", js.Rules())
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
