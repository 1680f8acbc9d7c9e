package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
)

// fakeHolder gives lives.
type fakeHolder struct {
	mu      sync.Mutex
	cut     context.CancelCauseFunc
	renewed time.Time     // for the metrics
	next    chan struct{} // each value allows another life
}

func newFakeHolder() *fakeHolder {
	h := &fakeHolder{next: make(chan struct{}, 16)}
	h.next <- struct{}{}
	return h
}

func (h *fakeHolder) Trusted() bool { return true }

func (h *fakeHolder) Renewed() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

func (h *fakeHolder) Run(ctx context.Context, work func(context.Context, schema.Process) error) error {
	for {
		select {
		case <-h.next:
		case <-ctx.Done():
			return nil
		}
		life, end := context.WithCancelCause(ctx)
		h.mu.Lock()
		h.cut = end
		h.mu.Unlock()
		err := work(life, schema.Process{Node: "gw-1", Boot: schema.NewBoot()})
		cause := context.Cause(life)
		end(nil)
		if err != nil || errors.Is(cause, lease.ErrTakenOver) {
			return errors.Join(err, cause)
		}
	}
}

// end ends the present life.
func (h *fakeHolder) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut(cause)
}

// begin allows another life.
func (h *fakeHolder) begin() { h.next <- struct{}{} }

// fakeView says that one authority owns every slot.
type fakeView struct {
	mu      sync.Mutex
	config  schema.Config
	owner   schema.Target // for every slot
	owned   bool
	highest map[schema.Slot]schema.Revision
	hear    func(lease.Change)
	reads   int // of slots' keys
}

func newFakeView() *fakeView {
	return &fakeView{
		config: schema.DefaultConfig(), owned: true, highest: make(map[schema.Slot]schema.Revision),
		owner: schema.Target{Fence: 100, Authority: schema.Process{Node: "a-1", Boot: schema.NewBoot()}},
	}
}

func (v *fakeView) Target(n schema.Slot) (schema.Target, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t := v.owner
	t.Slot = n
	return t, v.owned
}

func (v *fakeView) Highest(n schema.Slot) schema.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(v.highest[n], v.owner.Fence)
}

func (v *fakeView) Saw(n schema.Slot, fence schema.Revision) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if fence > v.owner.Fence+lease.MostAhead {
		return false
	}
	v.highest[n] = max(v.highest[n], fence)
	return true
}

// Reread counts the reads.
func (v *fakeView) Reread(context.Context, string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	return nil
}

func (v *fakeView) Config() schema.Config {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.config
}

// configure changes the settings, and tells the gateway.
func (v *fakeView) configure(change func(*schema.Config)) {
	v.mu.Lock()
	change(&v.config)
	c := v.config
	v.mu.Unlock()
	v.hear(lease.Change{Config: &c})
}

func (v *fakeView) Revision() schema.Revision { return 77 }

func (v *fakeView) subscribe(f func(lease.Change)) func() {
	v.hear = f
	return func() {}
}

// move gives every slot to another authority, at the next fence, and tells the gateway.
func (v *fakeView) move() {
	v.mu.Lock()
	v.owner.Fence++
	v.owner.Authority.Boot = schema.NewBoot()
	v.mu.Unlock()
	for n := range schema.Slot(schema.Slots) {
		t, _ := v.Target(n)
		v.hear(lease.Change{Slot: &lease.SlotChange{Target: t, Owned: true}})
	}
}

// fakeMesh is an authority that says yes, but for what a test makes of it.
type fakeMesh struct {
	view *fakeView

	mu     sync.Mutex
	n      uint64 // of orders
	routes map[schema.SessionNum]schema.Route
	leaves []schema.Leave
	synced []schema.Route
	lasts  int // sync chunks marked last
	touch  int // sessions touched

	onRegister   func(schema.Target, schema.Login) (schema.LoginResult, error)
	onCommit     func(schema.Target, schema.CommitEntry) (schema.LoginResult, error)
	onUnregister func(schema.Target, []schema.Leave) ([]schema.Code, error)
	onTouch      func([]schema.Touched) ([]schema.TouchException, error)
	onSync       func(schema.Target, []schema.Route) (*schema.SyncAnswer, error)
	onKick       func(schema.Process, []schema.KickEntry) ([]schema.Code, error)
	onLookup     func([]schema.UID) []client.Found
}

func newFakeMesh() *fakeMesh {
	return &fakeMesh{routes: make(map[schema.SessionNum]schema.Route)}
}

// with changes the mesh's behaviour, or reads its notes.
func (m *fakeMesh) with(f func(m *fakeMesh)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

func (m *fakeMesh) seqOf(num schema.SessionNum) schema.OwnerSeq {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.routes[num].Seq
}

func (m *fakeMesh) Target(_ context.Context, n schema.Slot) (schema.Target, error) {
	if t, ok := m.view.Target(n); ok {
		return t, nil
	}
	return schema.Target{}, client.ErrUnowned
}

func (m *fakeMesh) yes(r schema.Route, t schema.Target) schema.LoginResult {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	r.Order = schema.Order{Fence: t.Fence, N: m.n}
	m.routes[r.Session] = r
	return schema.LoginResult{Order: r.Order}
}

func (m *fakeMesh) Register(_ context.Context, t schema.Target, l schema.Login) (schema.LoginResult, error) {
	m.mu.Lock()
	on := m.onRegister
	m.mu.Unlock()
	if on != nil {
		res, err := on(t, l)
		if err != nil || res.Code != schema.CodeOK {
			return res, err
		}
	}
	return m.yes(l.Route, t), nil
}

func (m *fakeMesh) Commit(_ context.Context, t schema.Target, from schema.Process, e schema.CommitEntry) (schema.LoginResult, error) {
	m.mu.Lock()
	on := m.onCommit
	m.mu.Unlock()
	if on != nil {
		res, err := on(t, e)
		if err != nil || res.Code != schema.CodeOK {
			return res, err
		}
	}
	return m.yes(schema.Route{UID: e.UID, Session: e.Session, Owner: from}, t), nil
}

func (m *fakeMesh) Unregister(_ context.Context, t schema.Target, _ schema.Process, e []schema.Leave) ([]schema.Code, error) {
	m.mu.Lock()
	on := m.onUnregister
	m.mu.Unlock()
	if on != nil {
		if codes, err := on(t, e); codes != nil || err != nil {
			return codes, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaves = append(m.leaves, e...)
	for _, one := range e {
		delete(m.routes, one.Session)
	}
	return make([]schema.Code, len(e)), nil
}

func (m *fakeMesh) Touch(_ context.Context, _ schema.Target, _ schema.Process, s []schema.Touched) ([]schema.TouchException, error) {
	m.mu.Lock()
	on := m.onTouch
	m.touch += len(s)
	m.mu.Unlock()
	if on != nil {
		return on(s)
	}
	return nil, nil
}

func (m *fakeMesh) Sync(_ context.Context, t schema.Target, _ schema.Process, last bool, routes []schema.Route) (*schema.SyncAnswer, error) {
	m.mu.Lock()
	on := m.onSync
	m.mu.Unlock()
	if on != nil {
		if answer, err := on(t, routes); answer != nil || err != nil {
			return answer, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = append(m.synced, routes...)
	for _, r := range routes {
		m.routes[r.Session] = r
	}
	if last {
		m.lasts++
	}
	return &schema.SyncAnswer{Verdicts: make([]schema.SyncVerdict, len(routes))}, nil
}

func (m *fakeMesh) Kick(_ context.Context, p schema.Process, e []schema.KickEntry) ([]schema.Code, error) {
	m.mu.Lock()
	on := m.onKick
	m.mu.Unlock()
	if on != nil {
		return on(p, e)
	}
	return make([]schema.Code, len(e)), nil
}

func (m *fakeMesh) Lookup(_ context.Context, uids []schema.UID) []client.Found {
	m.mu.Lock()
	on := m.onLookup
	m.mu.Unlock()
	if on != nil {
		return on(uids)
	}
	found := make([]client.Found, len(uids))
	for i, u := range uids {
		found[i] = client.Found{UID: u, State: schema.Offline, Stamp: schema.Stamp{Fence: 100}}
	}
	return found
}

// fakeBus is a NATS connection on which only what a test wants happens.
type fakeBus struct {
	mu       sync.Mutex
	subs     map[string]chan *nats.Msg
	count    int // of subscriptions made
	onSend   func(subject string, data []byte) (*nats.Msg, error)
	onFlush  func(context.Context) error
	status   chan nats.Status
	requests []string
}

func (b *fakeBus) ChanSubscribe(subject string, ch chan *nats.Msg) (*nats.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs == nil {
		b.subs = make(map[string]chan *nats.Msg)
	}
	b.subs[subject] = ch
	b.count++
	return nil, nil
}

func (b *fakeBus) subscribed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// publish brings a message to who has subscribed.
func (b *fakeBus) publish(subject string, data []byte) {
	b.mu.Lock()
	ch := b.subs[subject]
	b.mu.Unlock()
	if ch != nil {
		ch <- &nats.Msg{Subject: subject, Data: data}
	}
}

// asked gives the subjects of all requests so far.
func (b *fakeBus) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

func (b *fakeBus) RequestWithContext(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	b.mu.Lock()
	on := b.onSend
	b.requests = append(b.requests, subject)
	b.mu.Unlock()
	if on == nil {
		return nil, nats.ErrNoResponders
	}
	m, err := on(subject, data)
	if m == nil && err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m, err
}

// flushes says how flushes end from now on; nil: well, and at once.
func (b *fakeBus) flushes(f func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onFlush = f
}

func (b *fakeBus) FlushWithContext(ctx context.Context) error {
	b.mu.Lock()
	on := b.onFlush
	b.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(ctx)
}

// reconnect tells who has asked for it of the connection's status.
func (b *fakeBus) reconnect(s nats.Status) { b.status <- s }

func (b *fakeBus) StatusChanged(...nats.Status) chan nats.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = make(chan nats.Status)
	return b.status
}

func (b *fakeBus) RemoveStatusListener(chan nats.Status) {}
