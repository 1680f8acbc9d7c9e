package authority

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rollcall-mesh/rollcall/schema"
)

// metrics are what an authority counts, labelled by closed sets only.
type metrics struct {
	ops           *prometheus.CounterVec // by operation, entries
	outcomes      *prometheus.CounterVec // of logins, by operation and code
	events        *prometheus.CounterVec // by type
	eventsDropped prometheus.Counter
	eventStream   recordMetrics
	lastSeen      recordMetrics
	moves         *prometheus.CounterVec // of slots: taken, or why dropped
	lastMove      *prometheus.GaugeVec   // the time of the latest of each
	endings       *prometheus.CounterVec // of other processes' leases, by proof or by time
	corrupt       prometheus.Counter
}

// How the lease of another process was ended.
const (
	endedByProof = "proof"
	endedByLease = "lease"
)

func newMetrics(r prometheus.Registerer, w *Worker) *metrics {
	f := promauto.With(r)
	name := func(s string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "rollcall", Subsystem: "authority", Name: s}
	}
	counter := func(s, help string, labels ...string) *prometheus.CounterVec {
		o := name(s)
		o.Help = help
		return f.NewCounterVec(o, labels)
	}
	corrupt := name("corrupt_fences_total")
	corrupt.Help = "Fences too far above the bucket's revisions to be one: requests that named one, and slots that one keeps from being served."
	plain := func(s, help string) prometheus.Counter {
		o := name(s)
		o.Help = help
		return f.NewCounter(o)
	}
	dropped := name("events_dropped_total")
	dropped.Help = "Events that were not published; their slots' watchers were told to look up again."
	m := &metrics{
		ops:           counter("entries_total", "Entries served, by operation.", "op"),
		outcomes:      counter("logins_total", "Entries of register and commit, by outcome.", "op", "code"),
		events:        counter("events_total", "Events published, by type.", "type"),
		eventsDropped: f.NewCounter(dropped),
		eventStream: recordMetrics{
			stored: plain("events_stored_total", "Events that the stream presence_events has acknowledged."),
			again:  plain("events_repeated_total", "Events sent to the stream presence_events once more, for want of an acknowledgement."),
			lost:   plain("events_lost_total", "Events that the stream presence_events has missed; rebuilt is told there on their slots."),
		},
		moves: counter("slot_moves_total", "Slots taken, and dropped by cause.", "what"),
		lastMove: f.NewGaugeVec(prometheus.GaugeOpts{Namespace: "rollcall", Subsystem: "authority", Name: "slot_moved_timestamp_seconds",
			Help: "When a slot was last taken, and dropped by cause, in unix seconds."}, []string{"what"}),
		endings: counter("leases_ended_total", "Leases of other processes ended, by proof or by time.", "how"),
		corrupt: f.NewCounter(corrupt),
	}
	m.lastSeen = recordMetrics{
		stored: plain("last_seen_stored_total", "Entries that the bucket last_seen has acknowledged."),
		again:  plain("last_seen_repeated_total", "Entries sent to the bucket last_seen once more, for want of an acknowledgement."),
		lost:   plain("last_seen_lost_total", "Entries that the bucket last_seen has missed."),
	}
	for _, how := range [...]string{endedByProof, endedByLease} { // from 0 on: an alert on the first needs it
		m.endings.WithLabelValues(how)
	}
	w.gauges(f)
	if r != nil {
		r.MustRegister(newHeldFences(w))
	}
	return m
}

// moved notes that a slot was taken or dropped, and why.
func (m *metrics) moved(what string) {
	m.moves.WithLabelValues(what).Inc()
	m.lastMove.WithLabelValues(what).SetToCurrentTime()
}

func (m *metrics) logins(op string, results []schema.LoginResult) {
	for i := range results {
		m.outcomes.WithLabelValues(op, results[i].Code.String()).Inc()
	}
}
