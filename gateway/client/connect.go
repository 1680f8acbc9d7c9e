package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/rollcall-mesh/rollcall/schema"
)

// connect gets a token if need be, dials and says hello. The session that it gives has no
// goroutines yet.
func (c *Client) connect(ctx context.Context) (*session, error) {
	if !c.hasToken {
		token, err := c.cfg.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		c.token, c.hasToken = token, true
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s := newSession(c)
	if err := c.dial(ctx, s); err != nil {
		return nil, err
	}
	if err := c.hello(ctx, s); err != nil {
		s.conn.CloseNow()
		return nil, err
	}
	return s, nil
}

func (c *Client) dial(ctx context.Context, s *session) error {
	httpClient := *c.cfg.HTTPClient
	httpClient.Transport = &keepSocket{next: c.cfg.HTTPClient.Transport, socket: &s.socket}
	conn, resp, err := websocket.Dial(ctx, c.cfg.URL, &websocket.DialOptions{
		HTTPClient:     &httpClient,
		HTTPHeader:     c.cfg.Header.Clone(),
		Subprotocols:   []string{c.cfg.Encoding.Subprotocol()},
		OnPingReceived: func(context.Context, []byte) bool { s.sawLife(); return true },
	})
	if err != nil {
		return dialError(resp, err)
	}
	if got, ok := schema.ParseSubprotocol(conn.Subprotocol()); !ok || got != c.cfg.Encoding {
		conn.CloseNow()
		return fmt.Errorf("%w: the gateway speaks subprotocol %q, not %q",
			ErrStopped, conn.Subprotocol(), c.cfg.Encoding.Subprotocol())
	}
	conn.SetReadLimit(readLimit)
	s.conn = conn
	return nil
}

// keepSocket keeps what lies below an upgraded connection, because the library has no way to cut
// short a close handshake that it has begun.
type keepSocket struct {
	next   http.RoundTripper
	socket *io.Closer
}

func (k *keepSocket) RoundTrip(r *http.Request) (*http.Response, error) {
	next := k.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		*k.socket = resp.Body
	}
	return resp, err
}

// dialError tells a gateway's refusal from a network that does not answer.
func dialError(resp *http.Response, err error) error {
	lost := &LostError{Code: schema.CloseAbnormal, Err: err}
	if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return lost
	}
	lost.Status = resp.StatusCode
	lost.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"))
	plain := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")     // no page, as of a proxy
	if body, err := io.ReadAll(resp.Body); err == nil && plain && len(body) > 0 { // the library keeps 1,024 bytes
		lost.Reason, lost.Err = string(body), nil
	}
	return lost
}

// parseRetryAfter reads whole seconds or an HTTP date; what is neither asks for nothing.
func parseRetryAfter(header string) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 16); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), retryAfterMost)
}

// hello logs in. Until connected has come nothing else is of interest but the error before a close.
func (c *Client) hello(ctx context.Context, s *session) error {
	b, err := c.cfg.Encoding.Encode(c.helloFrame())
	if err != nil {
		return fmt.Errorf("%w: hello: %w", ErrStopped, err)
	}
	if err := s.conn.Write(ctx, s.kind(), b); err != nil {
		return s.lost(ctx, err)
	}
	for {
		f, err := s.readFrame(ctx)
		switch {
		case err != nil:
			return s.lost(ctx, err)
		case f.Type == schema.TypeConnected:
			s.accept(f)
			return nil
		case f.Type == schema.TypeError:
			s.hint = f
		}
	}
}

func (c *Client) helloFrame() schema.ClientFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := schema.ClientFrame{
		Type:   schema.TypeHello,
		Token:  c.token,
		Device: c.cfg.Device,
		Flag:   c.cfg.Flag,
		Resume: c.resume,
		Client: c.cfg.Name,
	}
	if c.cfg.Level != schema.Slave {
		f.Level = c.cfg.Level.String()
	}
	return f
}

// lost says why the connection ended: by the close frame, else by the error frame that announced
// one, else by what the network says.
func (s *session) lost(ctx context.Context, err error) error {
	if given, ok := errors.AsType[*LostError](context.Cause(ctx)); ok {
		return given // this side has given up
	}
	lost := &LostError{Code: schema.CloseAbnormal, RetryAfter: retryAfter(s.hint), Err: err}
	if frame, ok := errors.AsType[websocket.CloseError](err); ok {
		lost.Code, lost.Reason, lost.Err = schema.CloseCode(frame.Code), frame.Reason, nil
	} else if s.hint.Close != 0 {
		lost.Code, lost.Reason = s.hint.Close, s.hint.Message
	} else if ctx.Err() != nil {
		lost.Reason = "no answer in time"
	}
	return lost
}
