package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Path is where clients connect.
const Path = "/ws"

// servers are the HTTP servers of the listeners.
type servers struct {
	list []*http.Server
	done sync.WaitGroup
}

// listen starts to serve the listeners; one that fails by itself ends the gateway.
func (g *Gateway) listen(fail context.CancelCauseFunc) *servers {
	all := new(servers)
	for _, l := range g.config.Listeners {
		s := &http.Server{
			Handler:           g.handler(l.Name),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second, // of a request with a body that nobody wants; an upgrade ends both
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		}
		all.list = append(all.list, s)
		all.done.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				fail(err)
			}
		})
	}
	return all
}

// close ends the servers; upgraded connections are no longer theirs.
func (s *servers) close() {
	for _, one := range s.list {
		one.Close()
	}
	s.done.Wait()
}

func (g *Gateway) handler(name schema.Listener) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) { g.accept(w, r, name) })
	mux.Handle("/", g.config.Page)
	return mux
}

// accept upgrades a connection and leaves it to serve.
func (g *Gateway) accept(w http.ResponseWriter, r *http.Request, name schema.Listener) {
	enc, ok := offered(r)
	if !ok {
		g.refuse(w, refusedProtocol)
		return
	}
	if g.draining.Load() {
		g.refuse(w, refusedDraining)
		return
	}
	settle, why := g.door.enter(r.RemoteAddr)
	if why != "" {
		g.refuse(w, why)
		return
	}
	s := g.newSession(r, name, enc, settle)
	up := &upgrade{ResponseWriter: w}
	conn, err := websocket.Accept(up, r, &websocket.AcceptOptions{
		Subprotocols:   schema.Subprotocols(),
		OriginPatterns: g.config.Origins,
		OnPingReceived: func(context.Context, []byte) bool { return s.control() },
		OnPongReceived: func(context.Context, []byte) { s.control() },
	})
	if err != nil {
		g.metrics.refused.WithLabelValues(string(refusedHandshake)).Inc()
		g.door.leave(s)
		return
	}
	s.conn, s.wire = conn, up.wire
	conn.SetReadLimit(g.config.Limits.MaxBytes)
	if !g.door.keep(s) {
		conn.CloseNow()
		g.door.leave(s)
		return
	}
	go g.serve(s) // waited for by the door
}

func (g *Gateway) newSession(r *http.Request, name schema.Listener, enc schema.Encoding, settle func()) *session {
	s := &session{g: g, enc: enc, listener: name, addr: r.RemoteAddr, opened: g.now(), settle: settle, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(g.base)
	s.allowance.left, s.allowance.at = float64(g.config.Limits.Burst), s.opened
	s.refreshes.left, s.refreshes.at = refreshBurst, s.opened
	s.heard.Store(int64(s.opened))
	return s
}

// offered gives the encoding of the first subprotocol offered that is known; none offered is JSON.
func offered(r *http.Request) (schema.Encoding, bool) {
	none := true
	for _, header := range r.Header.Values("Sec-WebSocket-Protocol") {
		for name := range strings.SplitSeq(header, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			none = false
			if i := slices.IndexFunc(schema.Subprotocols(), func(p string) bool { return strings.EqualFold(p, name) }); i >= 0 {
				return schema.Encoding(i), true
			}
		}
	}
	return schema.JSON, none
}

// refusal is why a connection was not upgraded. The set is closed; it is a metric's label.
type refusal string

const (
	refusedProtocol  refusal = "subprotocol"
	refusedDraining  refusal = "draining"
	refusedSessions  refusal = "sessions"
	refusedBusy      refusal = "handshakes"
	refusedAddr      refusal = "address"
	refusedHandshake refusal = "handshake" // by the library: origin, headers
)

var refusals = map[refusal]struct {
	status     int
	retryAfter time.Duration
	text       string
}{
	refusedHandshake: {}, // answered by the library
	refusedProtocol:  {http.StatusBadRequest, 0, "unknown subprotocol: offer " + strings.Join(schema.Subprotocols(), " or ") + ", or none"},
	refusedDraining:  {http.StatusServiceUnavailable, 5 * time.Second, "gateway is going away"},
	refusedSessions:  {http.StatusServiceUnavailable, 30 * time.Second, "gateway has as many connections as it takes"},
	refusedBusy:      {http.StatusServiceUnavailable, time.Second, "too many connections are not logged in yet"},
	refusedAddr:      {http.StatusTooManyRequests, 5 * time.Second, "too many connections from this address are not logged in yet"},
}

func (g *Gateway) refuse(w http.ResponseWriter, why refusal) {
	g.metrics.refused.WithLabelValues(string(why)).Inc()
	kind := refusals[why]
	if kind.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(kind.retryAfter.Seconds())))
	}
	http.Error(w, kind.text, kind.status)
}
