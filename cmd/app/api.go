package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/rollcall-mesh/rollcall/delivery"
)

// APIFlags say where the service's calls are served over HTTP, and to whom.
type APIFlags struct {
	Listen string   `name:"listen" placeholder:"ADDR" help:"Serve the calls of the service over HTTP as well, as POST /v1/lookup and so on. Default: nowhere."`
	Keys   []string `name:"key" secret:"" placeholder:"KEY" help:"Who sends it as a bearer token may call; several, to change them. Better as $$ROLLCALL_API_KEY, separated by commas, or in the config file."`
	Cert   string   `name:"tls-cert" placeholder:"FILE" help:"Certificate of that listener, for HTTPS."`
	Key    string   `name:"tls-key" placeholder:"FILE" help:"Its key."`
}

// Times of the API's listener. A call may wait for slots and acks, a minute together.
const (
	apiRead  = 30 * time.Second
	apiWrite = 2 * time.Minute
	apiDrain = 10 * time.Second // for calls under way at the end
	apiLast  = 2 * time.Second  // then, for what they know by that time
)

func (f *APIFlags) check() error {
	switch {
	case f.Listen == "" && (len(f.Keys) > 0 || f.Cert != "" || f.Key != ""):
		return fmt.Errorf("%w: --api-key and --api-tls-... are for --api-listen ADDR, which is missing", errUsage)
	case f.Listen == "":
		return nil
	case len(f.Keys) == 0:
		return fmt.Errorf("%w: --api-listen takes an --api-key (better: $ROLLCALL_API_KEY): whoever can reach it could send to all users", errUsage)
	case (f.Cert == "") != (f.Key == ""):
		return fmt.Errorf("%w: --api-tls-cert and --api-tls-key go together", errUsage)
	}
	for _, k := range f.Keys {
		if len(k) < delivery.MinAPIKey {
			return fmt.Errorf("%w: an --api-key has at least %d characters, one has %d", errUsage, delivery.MinAPIKey, len(k))
		}
	}
	return nil
}

// open opens the API's listener, so that a port in use is told at once; nil where there is none.
func (f *APIFlags) open(p *process) (net.Listener, error) {
	if f.Listen == "" {
		return nil, nil
	}
	var secure *tls.Config
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("%w: --api-tls-cert: %w", errUsage, err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	l, err := p.listen(f.Listen, "--api-listen")
	if err != nil || secure == nil {
		return l, err
	}
	return tls.NewListener(l, secure), nil
}

// serveAPI serves on a listener until ctx ends. Calls under way then have a moment to end; those that
// wait for longer answer what they know by then.
func serveAPI(l net.Listener, handler http.Handler, log *slog.Logger) part {
	return func(ctx context.Context) error {
		calls, cut := context.WithCancel(context.WithoutCancel(ctx))
		defer cut()
		srv := &http.Server{
			Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: apiRead,
			WriteTimeout: apiWrite, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
			BaseContext: func(net.Listener) context.Context { return calls },
			ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		}
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ended)
			if shutdown(srv, apiDrain) == nil {
				return
			}
			cut()
			if shutdown(srv, apiLast) != nil {
				_ = srv.Close() // who still sends or reads is cut off, and asks again
			}
		})
		err := srv.Serve(l)
		if !stop() {
			<-ended
		}
		if !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("API listener: %w", err)
		}
		return nil
	}
}

// shutdown closes the listener and waits for calls under way.
func shutdown(srv *http.Server, most time.Duration) error {
	within, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	return srv.Shutdown(within)
}
