package authority

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const (
	// returnWithin is how long a worker whose connection has ended may take to come back and renew
	// its key over a new one: that takes under 10 ms (measured, 60 cuts on two busy cores).
	returnWithin = 100 * time.Millisecond
	// proofQueue bounds the events that wait. When it is full NATS drops the newest, and the lease
	// decides.
	proofQueue = 1024
	// proofTries bounds the writes that one event leads to: the key may be renewed beside it.
	proofTries = 5
	// probeWait is how long the event of our own probe may take; it comes within milliseconds.
	probeWait = time.Second
)

// disconnect is what is read of the server's event about a connection that has ended.
type disconnect struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Client struct {
		ID   uint64 `json:"id"`
		Name string `json:"name"`
	} `json:"client"`
}

func (d disconnect) connection() string { return lease.ConnectionName(d.Server.ID, d.Client.ID) }

// heedDisconnects ends the leases of workers whose connection is proven to have ended: a killed
// process is succeeded in a fraction of a second. It works where the account imports the server's
// disconnect events; elsewhere the lease decides, and the start says so.
func (w *Worker) heedDisconnects(ctx context.Context) {
	events := make(chan *nats.Msg, proofQueue)
	sub, err := w.nc.ChanSubscribe(w.config.Prefix.SysDisconnect(), events)
	if err != nil {
		w.log.Warn("no disconnect events: takeover waits for the lease", "err", err)
		return
	}
	defer sub.Unsubscribe()
	probe := w.probeEvents(ctx)
	unproven := time.NewTimer(probeWait)
	defer unproven.Stop()
	for {
		select {
		case m := <-events:
			var d disconnect
			if err := json.Unmarshal(m.Data, &d); err != nil || m.Reply != "" { // a consumer's delivery has one, wherever it goes
				w.log.Debug("disconnect event not read, or not the server's", "err", err)
				continue
			}
			if probe != "" && d.Client.Name == probe {
				unproven.Stop()
				w.proofs.Store(true)
				continue
			}
			w.spawn(func(ctx context.Context) { w.succeed(ctx, d.connection()) })
		case <-unproven.C:
			w.log.Warn("the account does not import the server's disconnect events: takeover from a killed authority waits for the lease",
				"import", w.config.Prefix.SysDisconnect(), "lease", w.view.Config().Lease())
		case <-ctx.Done():
			return
		}
	}
}

// probeEvents opens and closes a connection, whose event shows that events are imported.
func (w *Worker) probeEvents(ctx context.Context) (name string) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if w.nc.FlushWithContext(ctx) != nil { // the server has to know the subscription before
		return ""
	}
	o := w.nc.Opts
	o.Name = "authority/" + string(w.Me().Node) + "/" + string(w.Me().Boot) + "/probe"
	o.AllowReconnect, o.RetryOnFailedConnect = false, false
	o.DisconnectedErrCB, o.ClosedCB, o.ReconnectedCB = nil, nil, nil
	nc, err := o.Connect()
	if err != nil {
		w.log.Debug("probe of disconnect events failed", "err", err)
		return ""
	}
	nc.Close()
	return o.Name
}

// succeed ends the lease of the worker that was last renewed over a connection that has ended,
// unless it has come back over another in time. An event about any other connection means nothing.
func (w *Worker) succeed(ctx context.Context, ended string) {
	m, ok := w.renewedOver(ended)
	if !ok || m.Process == w.Me() || lease.Wait(ctx, returnWithin) != nil {
		return
	}
	for range proofTries {
		m, ok = w.renewedOver(ended)
		if !ok || !w.holder.Trusted() {
			return
		}
		err := w.bucket.Kill(ctx, m)
		if err == nil {
			w.log.Warn("lease ended by proof: its connection has ended", "process", m.Process.String(), "connection", ended)
			w.meter.endings.WithLabelValues(endedByProof).Inc()
		}
		if !errors.Is(err, lease.ErrConflict) {
			return // without the bucket the event is forgotten, and the lease decides
		}
		if w.view.Reread(ctx, subjects.AuthorityKey(m.Process.Node)) != nil {
			return
		}
	}
}

// renewedOver gives the living worker whose key names a connection.
func (w *Worker) renewedOver(connection string) (lease.Member, bool) {
	for _, m := range w.view.Members(lease.Authority) {
		if m.Value.Conn == connection && m.Value.State != schema.StateDead {
			return m, true
		}
	}
	return lease.Member{}, false
}
