package app

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-mesh/rollcall/subjects"
)

// What an error of a connection was about: the closed set of a metric's label.
const (
	linkRefused = "refused"       // the server keeps a subject from this user
	linkLate    = "late_answer"   // it takes an answer no more: the connection that was asked is gone, or it took too long
	linkSlow    = "slow_consumer" // messages were dropped: one error an episode, however many they are
	linkOther   = "other"
)

// links are the connections of a role to NATS, with what they have been through.
type links struct {
	errors     *prometheus.CounterVec
	reconnects prometheus.Counter

	mu   sync.Mutex
	list []*nats.Conn
}

func newLinks(r prometheus.Registerer) (*links, error) {
	const namespace, subsystem = "rollcall", "nats"
	l := &links{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "errors_total",
			Help: "Errors that came over no request: refused a subject, late_answer for an answer after a reconnect, slow_consumer for messages dropped since this process reads too slowly, other."}, []string{"kind"}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: "reconnects_total",
			Help: "Times that a lost connection came back."}),
	}
	for _, kind := range [...]string{linkRefused, linkLate, linkSlow, linkOther} {
		l.errors.WithLabelValues(kind)
	}
	all := []prometheus.Collector{l.errors, l.reconnects}
	for _, up := range [...]bool{true, false} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "connections",
			Help: "Connections to NATS of the moment.", ConstLabels: prometheus.Labels{"state": upOrDown(up)}}, func() float64 { return float64(l.count(up)) }))
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return l, nil
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func (l *links) add(nc *nats.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, nc)
}

func (l *links) count(up bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, nc := range l.list {
		if !nc.IsClosed() && nc.IsConnected() == up { // what its role has closed is not missing
			n++
		}
	}
	return n
}

// failed counts an error.
func (l *links) failed(err error) { l.errors.WithLabelValues(linkError(err)).Inc() }

// linkError is what an error of a connection was about.
func linkError(err error) string {
	switch {
	case errors.Is(err, nats.ErrPermissionViolation) && subjects.RefusedAnswer(err.Error()):
		return linkLate
	case errors.Is(err, nats.ErrPermissionViolation):
		return linkRefused
	case errors.Is(err, nats.ErrSlowConsumer):
		return linkSlow
	}
	return linkOther
}
