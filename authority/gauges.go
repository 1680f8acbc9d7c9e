package authority

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rollcall-mesh/rollcall/schema"
)

// gauges are what stands at the moment of asking.
func (w *Worker) gauges(f promauto.Factory) {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rollcall", Subsystem: "authority", Name: name, Help: help, ConstLabels: labels}, value)
	}
	total := func(of func(totals) int) func() float64 { return func() float64 { return float64(of(w.totals())) } }
	const slots = "Slots held, by what they can answer: one that is being rebuilt says unknown of who has no route there."
	gauge("slots", slots, prometheus.Labels{"state": string(schema.SlotReady)}, total(func(t totals) int { return t.slots - t.rebuilding }))
	gauge("slots", slots, prometheus.Labels{"state": string(schema.SlotRebuilding)}, total(func(t totals) int { return t.rebuilding }))
	gauge("syncs_awaited", "Last chunks that slots being rebuilt still wait for, one a slot and gateway.", nil, total(func(t totals) int { return t.awaited }))
	gauge("routes", "Routes in the directories of the slots held.", nil, total(func(t totals) int { return t.routes }))
	gauge("offlines_held", "Users whose offline event is held back.", nil, total(func(t totals) int { return t.offlines }))
	gauge("events_unstored", "Events that the stream presence_events has not acknowledged yet.", nil, func() float64 { return float64(w.recording.Load().count()) })
	gauge("last_seen_unstored", "Entries that the bucket last_seen has not acknowledged yet.", nil, func() float64 { return float64(w.seeing.Load().count()) })
	gauge("renewal_age_seconds", "Time since the start of the last renewal of the lease that was acknowledged; +Inf without a lease.", nil, w.renewalAge)
	gauge("suspect", "1 while the lease is not proven: logins are refused, and all other answers are marked suspect.", nil, func() float64 {
		if w.holder.Trusted() {
			return 0
		}
		return 1
	})
	const depth = "What waits to be served (slots: requests to slots, asks: look-ups and other requests to the process) or published (events)."
	gauge("queue_depth", depth, prometheus.Labels{"queue": "slots"}, func() (n float64) {
		for _, l := range w.loops {
			n += float64(len(l.Queue))
		}
		return n
	})
	gauge("queue_depth", depth, prometheus.Labels{"queue": "asks"}, func() float64 { return float64(len(w.asks.Queue)) })
	gauge("queue_depth", depth, prometheus.Labels{"queue": "events"}, func() float64 { return float64(w.out.len()) })
}

func (w *Worker) renewalAge() float64 {
	at := w.holder.Renewed()
	if at.IsZero() {
		return math.Inf(1)
	}
	return time.Since(at).Seconds()
}

// totals are what is held, over all slots.
type totals struct {
	slots, routes int
	rebuilding    int // of the slots
	awaited       int // last chunks of gateways, by slot
	offlines      int // events held back
}

// totals counts what is held; each slot is locked on its own.
func (w *Worker) totals() (sum totals) {
	now := time.Now()
	for i := range w.held {
		if t := w.held[i].Load(); t != nil {
			t.count(now, &sum)
		}
	}
	return sum
}

func (t *tenure) count(now time.Time, sum *totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	sum.slots++
	if t.stateLocked(now) == schema.SlotRebuilding {
		sum.rebuilding++
	}
	sum.awaited += len(t.rebuild.outstanding)
	sum.routes += t.dir.Routes()
	sum.offlines += t.dir.Held()
}

// heldFences shows which slots are held, each under which fence: a series a slot.
type heldFences struct {
	w    *Worker
	desc *prometheus.Desc
}

func newHeldFences(w *Worker) heldFences {
	name := prometheus.BuildFQName("rollcall", "authority", "slot_fence")
	return heldFences{w, prometheus.NewDesc(name, "The fence under which a slot is held here.", []string{"slot"}, nil)}
}

// Describe is part of a prometheus.Collector.
func (c heldFences) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect is part of a prometheus.Collector.
func (c heldFences) Collect(ch chan<- prometheus.Metric) {
	for i := range c.w.held {
		if t := c.w.held[i].Load(); t != nil {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(t.target.Fence), strconv.Itoa(i))
		}
	}
}
