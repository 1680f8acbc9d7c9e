package delivery

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

// metrics are what a Delivery counts, labelled by closed sets only.
type metrics struct {
	lookups    prometheus.Counter
	users      *prometheus.CounterVec // looked up, by state
	lookupTime prometheus.Histogram
	pushes     prometheus.Counter
	routes     *prometheus.CounterVec // pushed to, by result
	pushTime   prometheus.Histogram
	ways       *prometheus.CounterVec // recipients answered for, by way
	locals     prometheus.Counter     // users that needed no look-up
	retries    prometheus.Counter
	fallbacks  *prometheus.CounterVec // unreached users published, by outcome
	kicks      *prometheus.CounterVec // sessions, by result
	removes    prometheus.Counter
	watches    prometheus.Gauge       // users watched at the moment, each watch by itself
	resyncs    prometheus.Counter     // of watches
	lastSeen   *prometheus.CounterVec // users asked for, by outcome
	cacheUsers *prometheus.CounterVec // asked for while the cache is on, by whether it knew
	cacheDrops *prometheus.CounterVec // answers that the cache gave up, by cause
	calls      *prometheus.CounterVec // of the service that have ended, by call and code
	serving    prometheus.Gauge       // calls under way
	refusedAPI *prometheus.CounterVec // HTTP requests that were no call, by code
	laneFull   *prometheus.CounterVec // what found no room in a lane, by lane
}

func newMetrics(r prometheus.Registerer, stats func() client.Stats, cached func() int) *metrics {
	f := promauto.With(r)
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "rollcall", Subsystem: "delivery", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{label})
	}
	seconds := func(name, help string) prometheus.Histogram {
		o := opts(name, help)
		return f.NewHistogram(prometheus.HistogramOpts{Namespace: o.Namespace, Subsystem: o.Subsystem, Name: o.Name, Help: o.Help,
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9)}) // 0.1 ms to 6.6 s
	}
	counted := func(name, help string, value func(client.Stats) uint64) {
		f.NewCounterFunc(prometheus.CounterOpts(opts(name, help)), func() float64 { return float64(value(stats())) })
	}
	counted("lookup_requests_total", "Requests that carried look-ups to authorities.", func(s client.Stats) uint64 { return s.Requests })
	counted("lookup_again_total", "Users asked for once more, since the owner of their slot had changed.", func(s client.Stats) uint64 { return s.Again })
	size := opts("cache_users", "Users whose whereabouts are cached.")
	f.NewGaugeFunc(prometheus.GaugeOpts(size), func() float64 { return float64(cached()) })
	m := &metrics{
		lastSeen:   counters("last_seen_users_total", "Users whose last time there was asked for: found, absent or failed.", "outcome"),
		cacheUsers: counters("cache_lookup_users_total", "Users asked for while the cache is on: hit where it knew of them, else miss.", "outcome"),
		cacheDrops: counters("cache_drops_total", "Users that the cache has dropped, by cause.", "cause"),
		lookups:    counter("lookups_total", "Look-ups that authorities were asked for, those of pushes and kicks included."),
		users:      counters("lookup_users_total", "Users looked up, by state.", "state"),
		lookupTime: seconds("lookup_seconds", "Time of a look-up, waits for fresh slots included."),
		pushes:     counter("pushes_total", "Messages pushed."),
		routes:     counters("push_routes_total", "Routes pushed to, by result.", "result"),
		pushTime:   seconds("push_seconds", "Time of a push, its look-up, tries and wait for acks included."),
		retries:    counter("push_retries_total", "Routes tried again since their session was being set up."),
		ways:       counters("push_recipients_total", "Recipients that a gateway has answered for, in this process or over NATS.", "way"),
		locals:     counter("push_found_locally_total", "Users of pushes who were not looked up, since a gateway in this process had the device."),
		fallbacks:  counters("fallback_total", "Users not reached whose message was published, or could not be.", "outcome"),
		kicks:      counters("kicked_total", "Sessions that were to be kicked, by result.", "result"),
		watches:    f.NewGauge(prometheus.GaugeOpts(opts("watched_users", "Users that are being watched."))),
		resyncs:    counter("watch_resyncs_total", "Times that a watch looked up again since it may have missed events."),
		removes:    counter("removed_total", "Routes removed that their gateway had disowned."),
		calls: f.NewCounterVec(prometheus.CounterOpts(opts("calls_total", "Calls of the service that have ended, over NATS or HTTP, by code: 200, or that of the error; 429 where no worker was free.")),
			[]string{"call", "code"}),
		serving:    f.NewGauge(prometheus.GaugeOpts(opts("calls_under_way", "Calls of the service that are being served."))),
		refusedAPI: counters("api_refused_total", "HTTP requests that were refused before they were a call, by code; 401 for a wrong key.", "code"),
		laneFull:   counters("lane_full_total", "Messages to a gateway (push) and removals (remove) that were not sent, since too many waited already.", "lane"),
	}
	for _, lane := range [...]string{lanePush, laneRemove} { // from 0 on: an alert on the first needs it
		m.laneFull.WithLabelValues(lane)
	}
	return m
}

func (m *metrics) looked(found []Found, took time.Duration) {
	m.lookups.Inc()
	m.lookupTime.Observe(took.Seconds())
	var online, offline, unknown int
	for i := range found {
		switch found[i].State {
		case schema.Online:
			online++
		case schema.Offline:
			offline++
		default:
			unknown++
		}
	}
	add(m.users, string(schema.Online), online)
	add(m.users, string(schema.Offline), offline)
	add(m.users, string(schema.Unknown), unknown)
}

func (m *metrics) pushed(p *plan, took time.Duration) {
	m.pushes.Inc()
	m.pushTime.Observe(took.Seconds())
	var by [256]int
	for i := range p.routes {
		by[p.routes[i].Result]++
	}
	for r, n := range by {
		if n > 0 {
			add(m.routes, schema.PushResult(r).String(), n)
		}
	}
}

// How a message came to its gateway.
const (
	wayLocal  = "local"
	wayRemote = "remote"
)

func (m *metrics) carried(way string, recipients int) { add(m.ways, way, recipients) }

func (m *metrics) sawLast(seen []Seen) {
	var found, failed int
	for i := range seen {
		switch {
		case seen[i].Err != nil:
			failed++
		case !seen[i].At.IsZero():
			found++
		}
	}
	add(m.lastSeen, "found", found)
	add(m.lastSeen, "failed", failed)
	add(m.lastSeen, "absent", len(seen)-found-failed)
}

func (m *metrics) cacheAsked(hits, misses int) {
	add(m.cacheUsers, "hit", hits)
	add(m.cacheUsers, "miss", misses)
}

func (m *metrics) cacheDropped(why dropCause) { m.cacheDrops.WithLabelValues(string(why)).Inc() }

// called counts a call that has ended.
func (m *metrics) called(name string, code int) {
	m.calls.WithLabelValues(name, strconv.Itoa(code)).Inc()
}

func (m *metrics) refused(code int) { add(m.refusedAPI, strconv.Itoa(code), 1) }

// The lanes that may be full.
const (
	lanePush   = "push"
	laneRemove = "remove"
)

// notSent counts what a lane did not take, where that was for want of room.
func (m *metrics) notSent(lane string, err error) {
	if errors.Is(err, client.ErrFull) {
		add(m.laneFull, lane, 1)
	}
}

func (m *metrics) foundLocally(users int) { m.locals.Add(float64(users)) }

func (m *metrics) fellBack(published, failed int) {
	add(m.fallbacks, "published", published)
	add(m.fallbacks, "failed", failed)
}

func (m *metrics) retried(routes int) { m.retries.Add(float64(routes)) }

func (m *metrics) removed(routes int) { m.removes.Add(float64(routes)) }

func (m *metrics) kicked(list []Kicked) {
	for _, k := range list {
		m.kicks.WithLabelValues(string(k.Result)).Inc()
	}
}

func add(v *prometheus.CounterVec, label string, n int) {
	if n > 0 {
		v.WithLabelValues(label).Add(float64(n))
	}
}
