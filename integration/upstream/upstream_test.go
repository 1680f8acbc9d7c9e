package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/deploy"
	"github.com/rollcall-mesh/rollcall/gateway/client"
	"github.com/rollcall-mesh/rollcall/integration/process"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// patience bounds what should happen at once, on a busy machine.
const patience = 20 * time.Second

// The gateway's limits here.
const (
	rate, burst = 10, 60
	inFlight    = 4
	sendWait    = time.Second
	frameBytes  = 4096
)

// site is a gateway with all it needs but a backend.
type site struct {
	t       *testing.T
	nats    *process.NATS
	address string

	devices context.Context // ends with the test
	running sync.WaitGroup  // the devices
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, nats: process.StartNATS(t)}
	r := process.Run(t, s.nats.As(deploy.Operator), "", "setup", "--lease", "3s")
	require.Zero(t, r.Code, r.Err)
	process.StartWith(t, s.nats.As(deploy.Authority), "authority", "--node", "a-1").Line("serving")
	g := process.StartWith(t, s.nats.As(deploy.Gateway), "gateway", "--node", "gw-1", "--listen", "127.0.0.1:0", "--auth", "insecure",
		"--max-rate", fmt.Sprint(rate), "--max-burst", fmt.Sprint(burst), "--max-sends", fmt.Sprint(inFlight),
		"--max-send-wait", sendWait.String(), "--max-frame-bytes", fmt.Sprint(frameBytes))
	_, s.address, _ = strings.Cut(g.Line("gateway listens"), "at=")
	g.Line("gateway lives")
	ctx, cancel := context.WithCancel(context.Background())
	s.devices = ctx
	t.Cleanup(func() { cancel(); s.running.Wait() })
	return s
}

// backend starts a backend, of which there may be several.
func (s *site) backend(name string) *process.Process {
	s.t.Helper()
	p := process.StartSelf(s.t, append(s.nats.As(deploy.Backend), backendVariable+"="+name), "backend "+name)
	p.Line("serves")
	return p
}

// device is a client, and why its connections have ended.
type device struct {
	*client.Client
	t *testing.T

	mu   sync.Mutex
	ends []schema.CloseCode
}

func (s *site) connect(uid schema.UID) *device {
	s.t.Helper()
	d := &device{t: s.t}
	var err error
	d.Client, err = client.New(client.Config{
		URL: "ws://" + s.address + "/ws", Token: client.FixedToken(string(uid)), Device: "phone",
		BackoffLeast: 10 * time.Millisecond, BackoffMost: 100 * time.Millisecond,
		OnState: func(state client.State) {
			if lost, ok := errors.AsType[*client.LostError](state.Err); ok {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.ends = append(d.ends, lost.Code)
			}
		},
	})
	require.NoError(s.t, err)
	s.running.Go(func() { _ = d.Run(s.devices) }) // why its connections end is noted
	d.ready()
	return d
}

func (d *device) ready() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	require.NoError(d.t, d.Ready(ctx))
}

// closed gives the codes with which its connections have ended.
func (d *device) closed() []schema.CloseCode {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends
}

// send sends, and gives the answer, or the gateway's error.
func (d *device) send(o order) (reply []byte, refused *client.RefusedError) {
	payload, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	reply, err = d.Send(d.t.Context(), payload)
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, &client.RefusedError{Code: "lost", Message: err.Error()}
	}
	return reply, nil
}

// refused sends and requires an error.
func (d *device) refused(o order, code schema.FrameCode, retryable bool) *client.RefusedError {
	d.t.Helper()
	reply, refused := d.send(o)
	require.NotNil(d.t, refused, "%s", reply)
	require.Equal(d.t, code, refused.Code, refused.Message)
	require.Equal(d.t, retryable, refused.Retryable)
	return refused
}

// echo sends and requires the answer of a backend, which it names.
func (d *device) echo(in time.Duration) (by string) {
	d.t.Helper()
	reply, refused := d.send(order{Do: "echo", In: in})
	require.Nil(d.t, refused)
	var e echoed
	require.NoError(d.t, json.Unmarshal(reply, &e))
	info, ok := d.Session()
	require.True(d.t, ok)
	require.Equal(d.t, info.Session, e.Up.Session, "it can be named in a push's except")
	require.Equal(d.t, subjects.Prefix("").Up(e.Up.UID), e.Subject)
	return e.By
}

// bystander sends five times a second, one at a time, and requires an answer to each.
func (s *site) bystander() (longest func() time.Duration) {
	s.t.Helper()
	d := s.connect("bystander")
	var most time.Duration
	ctx, stop := context.WithCancel(s.devices)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			begun := time.Now()
			if _, refused := d.send(order{Do: "echo"}); refused != nil {
				s.t.Errorf("bystander: %v", refused)
				return
			}
			most = max(most, time.Since(begun))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() time.Duration {
		stop()
		<-done
		require.Empty(s.t, d.closed())
		return most
	}
}

// together sends the same so many times at once and counts the answers by code; ok is an answer.
func (d *device) together(n int, o order) map[schema.FrameCode]int {
	codes := make(chan schema.FrameCode, n)
	for range n {
		go func() {
			_, refused := d.send(o)
			if refused == nil {
				refused = &client.RefusedError{Code: "ok"}
			}
			codes <- refused.Code
		}()
	}
	count := map[schema.FrameCode]int{}
	for range n {
		count[<-codes]++
	}
	return count
}

// TestLimitsOfASession: each limit has its code, the session goes on where it can, and a bystander
// notices nothing.
func TestLimitsOfASession(t *testing.T) {
	s := newSite(t)
	s.backend("b-1")
	longest := s.bystander()
	greedy := s.connect("greedy")

	require.Equal(t, "b-1", greedy.echo(0))
	require.Equal(t, "bob is busy", greedy.refused(order{Do: "refuse"}, schema.FrameBackendError, false).Message)
	require.Contains(t, greedy.refused(order{Do: "text"}, schema.FrameBackendError, false).Message, "no JSON")
	require.Contains(t, greedy.refused(order{Do: "huge"}, schema.FrameBackendError, false).Message, "524288")

	begun := time.Now()
	greedy.refused(order{Do: "never"}, schema.FrameTimeout, true)
	require.GreaterOrEqual(t, time.Since(begun), sendWait)
	require.Equal(t, map[schema.FrameCode]int{schema.FrameTimeout: inFlight, schema.FrameInFlight: 5}, greedy.together(inFlight+5, order{Do: "never"}))
	require.Equal(t, map[schema.FrameCode]int{"ok": inFlight}, greedy.together(inFlight, order{Do: "echo", In: sendWait / 4}), "its places are free again")

	_, err := greedy.Send(t.Context(), []byte(`"`+strings.Repeat("x", frameBytes)+`"`))
	require.ErrorIs(t, err, schema.FrameTooLarge, "the client knows what the gateway would close it for")
	require.Empty(t, greedy.closed())

	var tooFast *client.RefusedError
	for begun = time.Now(); tooFast == nil && time.Since(begun) < patience; { // one after the other, faster than the rate
		_, tooFast = greedy.send(order{Do: "echo"})
	}
	require.NotNil(t, tooFast)
	require.Equal(t, schema.FrameRateLimited, tooFast.Code)
	require.True(t, tooFast.Retryable)
	require.Equal(t, time.Second/rate, tooFast.RetryAfter)
	process.Eventually(t, patience, "it may send again", func() bool { _, refused := greedy.send(order{Do: "echo"}); return refused == nil })
	require.Empty(t, greedy.closed())
	greedy.together(4*burst, order{Do: "echo"})
	process.Eventually(t, patience, "it is closed", func() bool { return len(greedy.closed()) > 0 })
	require.Equal(t, []schema.CloseCode{schema.CloseRate}, greedy.closed(), "it did not listen")
	greedy.ready()
	greedy.echo(0)
	t.Logf("a bystander's longest wait for an answer: %v", longest())
}

// TestBackendsComeAndGo: without a backend the error says that it may be tried again; of two, one is
// killed in the middle of a send, and the other takes all that follows; when the last is gone nobody
// waits.
func TestBackendsComeAndGo(t *testing.T) {
	s := newSite(t)
	d := s.connect("alice")
	require.NotZero(t, d.refused(order{Do: "echo"}, schema.FrameNoBackend, true).RetryAfter)

	backends := map[string]*process.Process{"b-1": s.backend("b-1"), "b-2": s.backend("b-2")}
	seen := map[string]bool{}
	for range 20 {
		seen[d.echo(0)] = true
	}
	require.Len(t, seen, 2, "each send is one backend's")

	refused := make(chan *client.RefusedError)
	for range inFlight {
		go func() {
			_, r := d.send(order{Do: "echo", In: patience})
			refused <- r
		}()
	}
	process.Eventually(t, patience, "the sends have arrived", func() bool {
		n := 0
		for _, b := range backends {
			n += strings.Count(strings.Join(b.Said(), "\n"), "got echo 20s")
		}
		return n == inFlight
	})
	kill(backends["b-1"])
	other := s.connect("bob")
	// The server may not know yet that the killed one is gone: a first send may be lost with it.
	process.Eventually(t, 2*sendWait, "another client has its answer meanwhile", func() bool { _, r := other.send(order{Do: "echo"}); return r == nil })
	for range inFlight {
		r := <-refused
		require.Equal(t, schema.FrameTimeout, r.Code, "nobody can tell what the dead one has done")
		require.True(t, r.Retryable)
	}
	for range 20 {
		require.Equal(t, "b-2", d.echo(0))
	}
	kill(backends["b-2"])
	process.Eventually(t, patience, "the server knows", func() bool {
		_, r := d.send(order{Do: "echo"})
		return r != nil && r.Code == schema.FrameNoBackend
	})
	s.backend("b-3")
	require.Equal(t, "b-3", d.echo(0))
	require.Empty(t, d.closed())
}

func kill(p *process.Process) {
	p.Signal(syscall.SIGKILL)
	p.Wait()
}
