package gateway

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-mesh/rollcall/schema"
)

// drop is why something that a client or the mesh was owed did not go out, or something of a
// client was not taken. The set is closed; it is a metric's label.
type drop string

const (
	dropRate        drop = "rate"         // a frame above the client's rate
	dropInFlight    drop = "in_flight"    // a send above the client's sends
	dropAcks        drop = "acks"         // a push to a client that owes too many acks
	dropAckWaits    drop = "ack_waits"    // acks that nobody was told of: too many messages wait for theirs
	dropQueueFull   drop = "queue_full"   // a push to a client that reads too slowly
	dropPayload     drop = "payload"      // a push or reply that is no JSON value, or a reply too large
	dropMalformed   drop = "malformed"    // a message from the mesh that could not be read
	dropChase       drop = "chase"        // a repeated kick, given up after a TTL
	dropLeave       drop = "leave"        // an unregister, given up after a TTL
	dropWatchReport drop = "watch_report" // an event that the server or client library has lost
)

var allDrops = [...]drop{dropRate, dropInFlight, dropAcks, dropAckWaits, dropQueueFull, dropPayload, dropMalformed, dropChase, dropLeave, dropWatchReport}

// metrics count what the gateway does. They exist whether or not anybody registers them.
type metrics struct {
	states    [stateEnd]atomic.Int64
	refused   *prometheus.CounterVec
	logins    *prometheus.CounterVec
	refreshes *prometheus.CounterVec
	latency   prometheus.Histogram
	pushes    *prometheus.CounterVec
	results   [schema.PushPending + 1]prometheus.Counter // of pushes, by result: the hot path
	closes    *prometheus.CounterVec
	touches   *prometheus.CounterVec
	drops     *prometheus.CounterVec
	syncs     *prometheus.CounterVec
	frames    prometheus.Counter // of presence
	users     prometheus.Counter // in them
	asked     *prometheus.CounterVec
	sends     *prometheus.CounterVec
	all       []prometheus.Collector
}

func newMetrics(g *Gateway) *metrics {
	m := new(metrics)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rollcall", Subsystem: "gateway", Name: name, Help: help}, labels)
		m.all = append(m.all, c)
		return c
	}
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "rollcall", Subsystem: "gateway", Name: name, Help: help, ConstLabels: labels,
		}, value))
	}
	m.refused = counter("refused_total", "Connections refused before the upgrade.", "reason")
	m.logins = counter("logins_total", "Logins ended.", "outcome")
	m.refreshes = counter("refreshes_total", "New tokens for running sessions.", "outcome")
	m.pushes = counter("pushes_total", "Messages for one session each.", "result")
	m.closes = counter("closes_total", "Sessions ended.", "code")
	m.touches = counter("touches_total", "Sessions whose life signs were told.", "outcome")
	m.drops = counter("drops_total", "What was not taken or not delivered.", "reason")
	m.syncs = counter("synced_total", "Routes told to a slot's new authority.", "verdict")
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "rollcall", Subsystem: "gateway", Name: "login_seconds", Help: "From hello to connected.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5},
	})
	m.all = append(m.all, m.latency)
	presence := func(name, help string) prometheus.Counter { return counter(name, help).WithLabelValues() }
	m.frames = presence("presence_frames_total", "Presence frames given to clients that watch.")
	m.users = presence("presence_users_total", "Users named in them.")
	m.asked = counter("watch_policy_total", "Questions whom a client may watch.", "outcome")
	m.sends = counter("sends_total", "What clients sent, by what became of it: ok, or the code of the error.", "outcome")
	for what, of := range map[string]func(users, sessions, pairs int) int{
		"users": func(n, _, _ int) int { return n }, "sessions": func(_, n, _ int) int { return n }, "pairs": func(_, _, n int) int { return n },
	} {
		gauge("watched", "Users that are watched, sessions that watch, and pairs of them.", prometheus.Labels{"count": what},
			func() float64 { return float64(of(g.watches.counts())) })
	}
	gauge("watches_rest", "1 while the mesh's settings have the watches of clients rest.", nil, func() float64 {
		if g.watches.resting() {
			return 1
		}
		return 0
	})
	m.begin()
	for r := range m.results {
		m.results[r] = m.pushes.WithLabelValues(schema.PushResult(r).String())
	}
	for st := range closed {
		gauge("sessions", "Connections of the moment.", prometheus.Labels{"state": st.String()},
			func() float64 { return float64(m.states[st].Load()) })
	}
	const depth = "What waits: to be told (unregister, repeated_kick), or to be served (push, kick, revoke, ask, event)."
	for name, waiting := range queues {
		gauge("queue_depth", depth, prometheus.Labels{"queue": name},
			g.ofLife(func(l *life) float64 { return float64(waiting(l)) }))
	}
	gauge("queue_depth", depth, prometheus.Labels{"queue": "event"}, func() float64 { return float64(len(g.watches.events)) })
	gauge("renewal_age_seconds", "Time since the start of the last renewal of the lease that was acknowledged; +Inf without a lease.", nil, g.renewalAge)
	gauge("sync_backlog_slots", "Slots whose authority has yet to be told of sessions here.", nil,
		g.ofLife(func(l *life) float64 { return float64(l.syncs.backlog()) }))
	gauge("ack_waits", "Messages whose senders wait for acknowledgements.", nil,
		g.ofLife(func(l *life) float64 { return float64(l.ackWaits.Load()) }))
	gauge("oldest_dirty_seconds", "How long the longest life sign has not been told.", nil, func() float64 { return g.oldestDirty().Seconds() })
	return m
}

// begin has what is counted by a closed set stand at 0 from the start: an alert on the first step of a
// counter needs it.
func (m *metrics) begin() {
	for _, why := range allDrops {
		m.drops.WithLabelValues(string(why))
	}
	for why := range refusals {
		m.refused.WithLabelValues(string(why))
	}
	for _, code := range schema.CloseCodes() {
		m.closes.WithLabelValues(strconv.Itoa(int(code)))
	}
	for _, outcome := range allOutcomes {
		m.logins.WithLabelValues(outcome)
	}
}

// queues are those of a life.
var queues = map[string]func(*life) int{
	"unregister":    func(l *life) int { return l.leaves.len() },
	"repeated_kick": func(l *life) int { return l.chases.len() },
	"push":          func(l *life) int { return len(l.pushes.Queue) },
	"kick":          func(l *life) int { return len(l.kicks.Queue) },
	"revoke":        func(l *life) int { return len(l.revokes.Queue) },
	"ask":           func(l *life) int { return len(l.asks.Queue) },
}

func (g *Gateway) renewalAge() float64 {
	at := g.holder.Renewed()
	if at.IsZero() {
		return math.Inf(1)
	}
	return time.Since(at).Seconds()
}

func (g *Gateway) ofLife(value func(*life) float64) func() float64 {
	return func() float64 {
		if l := g.life.Load(); l != nil {
			return value(l)
		}
		return 0
	}
}

func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range m.all {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// moved notes a session's change of state.
func (m *metrics) moved(from, to state) {
	m.states[from].Add(-1)
	m.states[to].Add(1)
}

func (m *metrics) closed(code schema.CloseCode) {
	m.closes.WithLabelValues(strconv.Itoa(int(code))).Inc()
}

func (m *metrics) drop(why drop) { m.drops.WithLabelValues(string(why)).Inc() }

// presence counts a frame that tells of so many users.
func (m *metrics) presence(users int) {
	m.frames.Inc()
	m.users.Add(float64(users))
}

// sent counts a client's send that was asked of a backend, by the frame that answers it.
func (m *metrics) sent(f schema.ServerFrame) {
	outcome := outcomeOK
	if f.Type == schema.TypeError {
		outcome = string(f.Code)
	}
	m.sends.WithLabelValues(outcome).Inc()
}

func (m *metrics) login(outcome string, took time.Duration) {
	m.logins.WithLabelValues(outcome).Inc()
	if outcome == outcomeOK {
		m.latency.Observe(took.Seconds())
	}
}
