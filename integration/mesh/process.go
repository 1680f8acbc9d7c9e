package mesh

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/authority"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/schema"
)

// process is what authorities and gateways have in common.
type process struct {
	Node  schema.NodeID
	links []*bubble.Link
	run   *bubble.Process
}

// start opens the bucket over the first connection, and runs what work makes of it on top of a
// view until the process is stopped; then its connections are closed.
func (m *Mesh) start(conns []*nats.Conn, work func(*lease.Bucket, *lease.View) func(context.Context) error) *bubble.Process {
	m.T.Helper()
	b, err := lease.Open(m.T.Context(), conns[0], lease.Options{Create: true, Memory: !m.options.Disk, Defaults: m.config})
	require.NoError(m.T, err)
	if m.bucket == nil {
		m.bucket = b
	}
	view := lease.NewView(b, nil)
	run := work(b, view)
	p := bubble.Go(m.T, func(ctx context.Context) error {
		below, stop := context.WithCancel(context.WithoutCancel(ctx))
		var wg sync.WaitGroup
		wg.Go(func() { view.Run(below) })
		err := run(ctx)
		stop()
		wg.Wait()
		for _, nc := range conns {
			nc.Close()
		}
		return err
	})
	<-view.Ready()
	return p
}

// Stop ends the process in good order, waits for it, and gives what it returned.
func (p *process) Stop() error { return p.run.Stop() }

// Done is closed when the process has returned.
func (p *process) Done() <-chan struct{} { return p.run.Done() }

// Cut cuts the process off from the server; neither is told. Heal ends that.
func (p *process) Cut() {
	for _, l := range p.links {
		l.Cut()
	}
}

// Heal ends Cut.
func (p *process) Heal() {
	for _, l := range p.links {
		l.Heal()
	}
}

// vanish silences the process for good and then lets it end, unheard.
func (p *process) vanish() {
	p.Cut()
	go p.run.Stop()
}

// kill does the same, and the server sees its connections close.
func (p *process) kill() {
	p.Cut()
	for _, l := range p.links {
		l.Reset()
	}
	go p.run.Stop()
}

// Authority is an authority process.
type Authority struct {
	process
	*authority.Worker
	Link *bubble.Link
}

// StartAuthority starts one. The first of all makes the bucket, and waits for no gateway to sync.
func (m *Mesh) StartAuthority(node schema.NodeID) *Authority {
	m.T.Helper()
	a := m.LaunchAuthority(node)
	m.Await(lifeWait, "authority "+string(node)+" holds a lease", a.Ready)
	return a
}

// redial is the time between two dials of an authority that has lost its connection: it has to be
// back within 100 ms.
const redial = 10 * time.Millisecond

// LaunchAuthority is StartAuthority, but does not wait for its lease.
func (m *Mesh) LaunchAuthority(node schema.NodeID) *Authority {
	m.T.Helper()
	nc, link := m.Server.Dial("authority/"+string(node), nats.ReconnectWait(redial))
	a := &Authority{Link: link, process: process{Node: node, links: []*bubble.Link{link}}}
	a.run = m.start([]*nats.Conn{nc}, func(b *lease.Bucket, v *lease.View) func(context.Context) error {
		var err error
		a.Worker, err = authority.New(nc, b, v, authority.Config{Node: node, Fresh: len(m.Authorities) == 0 && !m.options.Bare})
		require.NoError(m.T, err)
		return a.Worker.Run
	})
	m.Authorities = append(m.Authorities, a)
	return a
}

// Kill ends the authority as SIGKILL does.
func (a *Authority) Kill() { a.kill() }

// Vanish ends it as a machine that loses its network: nobody is told.
func (a *Authority) Vanish() { a.vanish() }
