package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// health is what the roles of a process say of themselves.
type health struct {
	mu     sync.Mutex
	checks []check
}

// check is one role's word: nil where it serves, else why it does not.
type check struct {
	name  string
	ready func() error
}

func (h *health) add(name string, ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check{name, ready})
	slices.SortFunc(h.checks, func(a, b check) int { return cmp.Compare(a.name, b.name) })
}

// list gives the checks, by name; they are called without the lock.
func (h *health) list() []check {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.checks)
}

// ready names the first role that does not serve.
func (h *health) ready() error {
	for _, c := range h.list() {
		if err := c.ready(); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// wait returns when want roles have been added and all of them serve.
func (h *health) wait(ctx context.Context, want int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for len(h.list()) < want || h.ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// serveReady answers 200 when all roles serve, else 503, with a line for each.
func (h *health) serveReady(w http.ResponseWriter, _ *http.Request) {
	text, status := "", http.StatusOK
	checks := h.list()
	if len(checks) == 0 {
		text, status = "not ready: starting\n", http.StatusServiceUnavailable
	}
	for _, c := range checks {
		line := "ready"
		if err := c.ready(); err != nil {
			line, status = "not ready: "+oneLine(err), http.StatusServiceUnavailable
		}
		text += fmt.Sprintf("%s: %s\n", c.name, line)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the asker is gone: nobody is left to tell
}

// adminHandler serves what operators and probes ask: /healthz says that the process runs, /readyz
// that it serves, /metrics counts.
func adminHandler(h *health, metrics *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", h.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// serveAdmin serves on a listener until ctx ends.
func serveAdmin(l net.Listener, handler http.Handler) part {
	return func(ctx context.Context) error {
		srv := &http.Server{
			Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
			WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		}
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // a probe that is cut off asks again
		defer stop()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("admin listener: %w", err)
		}
		return nil
	}
}
