package client

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process makes a process whose boot is one letter, repeated.
func process(node schema.NodeID, boot string) schema.Process {
	return schema.Process{Node: node, Boot: schema.BootID(strings.Repeat(boot, 22))}
}

var (
	a1 = process("a1", "x")
	a2 = process("a2", "y")
	g1 = process("g1", "g")
)

// fakeView is what the bucket says: slots, and gateways that are gone.
type fakeView struct {
	ready chan struct{}

	mu      sync.Mutex
	slots   map[schema.Slot]schema.Target
	highest map[schema.Slot]schema.Revision
	gone    map[schema.Process]bool
	keys    map[string]func() error // what a read of a key does
	reads   []string
}

// newView gives every slot to one of the owners, in turn, at fence 10.
func newView(owners ...schema.Process) *fakeView {
	v := &fakeView{ready: make(chan struct{}), slots: map[schema.Slot]schema.Target{}, highest: map[schema.Slot]schema.Revision{},
		gone: map[schema.Process]bool{}, keys: map[string]func() error{}}
	close(v.ready)
	for s := range schema.Slot(schema.Slots) {
		if len(owners) > 0 {
			v.give(s, 10, owners[int(s)%len(owners)])
		}
	}
	return v
}

func (v *fakeView) give(s schema.Slot, fence schema.Revision, p schema.Process) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slots[s] = schema.Target{Slot: s, Fence: fence, Authority: p}
	v.highest[s] = max(v.highest[s], fence)
}

func (v *fakeView) Ready() <-chan struct{} { return v.ready }

func (v *fakeView) Target(s schema.Slot) (schema.Target, bool) {
	t, _, ok := v.Address(s)
	return t, ok
}

func (v *fakeView) Address(s schema.Slot) (schema.Target, schema.Revision, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.slots[s]
	return t, v.highest[s], ok
}

func (v *fakeView) Highest(s schema.Slot) schema.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.highest[s]
}

func (v *fakeView) Saw(s schema.Slot, fence schema.Revision) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.highest[s] = max(v.highest[s], fence)
	return true
}

func (v *fakeView) Standing(_ lease.Role, p schema.Process) lease.Standing {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gone[p] {
		return lease.Gone
	}
	return lease.Living
}

func (v *fakeView) Reread(_ context.Context, key string) error {
	v.mu.Lock()
	v.reads = append(v.reads, key)
	read := v.keys[key]
	v.mu.Unlock()
	if read != nil {
		return read()
	}
	return nil
}

func (v *fakeView) readsOf(s schema.Slot) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for _, k := range v.reads {
		if k == subjects.SlotKey(s) {
			n++
		}
	}
	return n
}

// fakeNATS answers requests by subject: by the handler whose key is the longest prefix. Without
// one nobody is there; one that gives nil answers never.
type fakeNATS struct {
	mu       sync.Mutex
	handlers map[string]func(data []byte) schema.Message
	asked    []string
}

func newNATS() *fakeNATS { return &fakeNATS{handlers: map[string]func([]byte) schema.Message{}} }

func (n *fakeNATS) handle(prefix string, f func(data []byte) schema.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[prefix] = f
}

func (n *fakeNATS) RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	n.mu.Lock()
	n.asked = append(n.asked, subject)
	var handler func([]byte) schema.Message
	longest := -1
	for prefix, h := range n.handlers {
		if strings.HasPrefix(subject, prefix) && len(prefix) > longest {
			handler, longest = h, len(prefix)
		}
	}
	n.mu.Unlock()
	if handler == nil {
		return nil, nats.ErrNoResponders
	}
	come := make(chan schema.Message, 1)
	go func() {
		if answer := handler(data); answer != nil {
			come <- answer
		}
	}()
	var answer schema.Message
	select {
	case answer = <-come:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b, err := schema.Marshal(answer)
	if err != nil {
		panic(fmt.Sprintf("fake answer: %v", err))
	}
	return &nats.Msg{Subject: subject, Data: b}, nil
}

func (n *fakeNATS) times(prefix string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, s := range n.asked {
		if strings.HasPrefix(s, prefix) {
			count++
		}
	}
	return count
}

// read decodes a request, which the client never gets wrong.
func read[M schema.Message](data []byte, m M) M {
	if err := schema.Unmarshal(data, m); err != nil {
		panic(fmt.Sprintf("client sent %v", err))
	}
	return m
}

// run runs a test in a bubble, with a client at work.
func run(t *testing.T, v *fakeView, n *fakeNATS, test func(t *testing.T, c *Client)) {
	t.Helper()
	runWith(t, v, n, Config{}, test)
}

func runWith(t *testing.T, v *fakeView, n *fakeNATS, config Config, test func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(n, v, config)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
		})
		synctest.Wait()
		test(t, c)
	})
}

// took runs f and gives the time it took.
func took(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}
