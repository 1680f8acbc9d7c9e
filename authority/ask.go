package authority

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// serveAsk answers one request to the process: look-up, explain, status or drain.
func (w *Worker) serveAsk(m *nats.Msg) {
	op, _ := w.config.Prefix.ParseAuthority(m.Subject)
	switch op {
	case subjects.Lookup:
		var req schema.Lookup
		if err := schema.Unmarshal(m.Data, &req); err != nil {
			w.log.Warn("look-up not read", "err", err)
			head := schema.ProcessHead{From: w.Me(), Code: schema.CodeBad, Why: clip(err.Error())}
			w.respond(m, &schema.LookupAnswer{ProcessHead: head})
			return
		}
		w.respond(m, w.lookup(&req))
	case subjects.Explain:
		w.respond(m, w.explain(m.Data))
	case subjects.Status:
		w.respond(m, schema.NewStatusAnswer(w.status()))
	case subjects.Drain:
		w.serveDrain(m)
	default:
		w.log.Debug("unknown request", "subject", m.Subject)
	}
}

// serveDrain ends Run, as the end of its context does, and tells how many slots are left.
func (w *Worker) serveDrain(m *nats.Msg) {
	if leave := w.leaveBy.Load(); leave != nil {
		(*leave)()
	}
	reply := schema.DrainReply{Node: w.Me().Node, Boot: w.Me().Boot}
	for n := range w.held {
		if w.held[n].Load() != nil {
			reply.Left++
		}
	}
	data, err := json.Marshal(reply)
	w.send(m, data, err)
}

// lookup answers group by group, until the answer would grow too large. A group whose target is
// wrong has no routes and spoils no other.
func (w *Worker) lookup(req *schema.Lookup) *schema.LookupAnswer {
	answer := &schema.LookupAnswer{
		ProcessHead: schema.ProcessHead{From: w.Me()},
		Groups:      make([]schema.GroupAnswer, len(req.Groups)),
		Counts:      make([]uint32, 0, len(req.UIDs)),
		Routes:      make([]schema.Route, 0, len(req.UIDs)),
	}
	now := time.Now()
	rest := req.UIDs
	size := 0
	for i, g := range req.Groups {
		uids := rest[:g.Count]
		rest = rest[g.Count:]
		t := w.held[g.Target.Slot].Load()
		answer.Groups[i] = w.groupHead(t, g)
		if size < schema.MaxLookupBytes {
			size += w.lookupGroup(now, t, &answer.Groups[i], uids, answer, schema.MaxLookupBytes-size)
		}
	}
	w.meter.ops.WithLabelValues("lookup").Add(float64(len(answer.Counts)))
	return answer
}

func (w *Worker) groupHead(t *tenure, g schema.LookupGroup) schema.GroupAnswer {
	head := w.check(t, g.Target, g.Seen)
	return schema.GroupAnswer{
		Code: head.Code, Target: head.Target, Differs: head.Differs, Owner: head.Owner,
		Seen: head.Seen, RetryAfter: head.RetryAfter, Suspect: head.Suspect,
	}
}

// lookupGroup appends the routes of a group's uids while there is room, in bytes; it returns about
// how many bytes they take.
func (w *Worker) lookupGroup(now time.Time, t *tenure, head *schema.GroupAnswer, uids []schema.UID, answer *schema.LookupAnswer, room int) (size int) {
	if head.Code != schema.CodeOK {
		answer.Counts = append(answer.Counts, make([]uint32, len(uids))...)
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		head.Code, head.Differs = schema.CodeMismatch, "fence"
		answer.Counts = append(answer.Counts, make([]uint32, len(uids))...)
		return 0
	}
	head.Suspect = head.Suspect || t.handing
	head.Rebuilding = t.unknownLocked(now)
	head.Stamp = t.dir.Stamp()
	for _, uid := range uids {
		before := len(answer.Routes)
		answer.Routes = t.dir.Lookup(now, uid, answer.Routes)
		for _, r := range answer.Routes[before:] {
			size += routeBytes + len(r.Device)
		}
		answer.Counts = append(answer.Counts, uint32(len(answer.Routes)-before))
		if size >= room {
			return size
		}
	}
	return size
}

// routeBytes is an upper bound of what a route takes in a look-up answer beside its device: eleven
// varints, most of them differences to the row before.
const routeBytes = 72

func (w *Worker) explain(data []byte) schema.Message {
	var req schema.Explain
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.ExplainAnswer{Head: broken(err)}
	}
	t := w.held[req.Target.Slot].Load()
	head := w.check(t, req.Target, req.Seen)
	if head.Code != schema.CodeOK {
		return &schema.ExplainAnswer{Head: head}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		head.Code = schema.CodeMismatch
		return &schema.ExplainAnswer{Head: head}
	}
	head.Suspect = head.Suspect || t.handing
	now := time.Now()
	e := schema.Explanation{
		UID: req.UID, Slot: t.target.Slot, Owner: string(t.target.Authority.Node), Boot: t.target.Authority.Boot,
		Fence: t.target.Fence, State: t.stateLocked(now), Stamp: t.dir.Stamp(),
	}
	e.Routes, e.Tombstones, e.Refusals = t.dir.Explain(now, req.UID)
	return schema.NewExplainAnswer(head, e)
}

// status reports on all slots held. Each is locked on its own, so that it never stops the others.
func (w *Worker) status() schema.StatusReport {
	me := w.Me()
	report := schema.StatusReport{Process: schema.ProcessName(me), Suspect: !w.holder.Trusted(), Backlog: map[schema.NodeID]int{}}
	counts := map[schema.NodeCount]int{}
	now := time.Now()
	for i := range w.held {
		switch t := w.held[i].Load(); {
		case t != nil:
			w.statusOf(t, now, &report, counts)
		case w.corrupt[i].Load():
			report.Slots = w.appendCorrupt(report.Slots, schema.Slot(i))
		}
	}
	for key, n := range counts {
		key.Sessions = n
		report.Counts = append(report.Counts, key)
	}
	report.Counts = schema.LargestCounts(report.Counts)
	return report
}

// appendCorrupt tells why a slot whose key names this process is not served.
func (w *Worker) appendCorrupt(slots []schema.SlotStatus, s schema.Slot) []schema.SlotStatus {
	key, owned := w.view.Target(s)
	if !owned || key.Authority != w.Me() {
		return slots
	}
	return append(slots, schema.SlotStatus{
		Slot: s, Owner: key.Authority.Node, Boot: key.Authority.Boot, Fence: key.Fence,
		State: schema.SlotUnreachable, Cause: schema.CauseCorrupt,
	})
}

func (w *Worker) statusOf(t *tenure, now time.Time, report *schema.StatusReport, counts map[schema.NodeCount]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	s := schema.SlotStatus{
		Slot: t.target.Slot, Owner: t.target.Authority.Node, Boot: t.target.Authority.Boot, Fence: t.target.Fence,
		State: t.stateLocked(now), Suspect: report.Suspect || t.handing, Routes: t.dir.Routes(), HeldMS: now.Sub(t.since).Milliseconds(), Cause: t.cause,
	}
	if s.State == schema.SlotRebuilding {
		s.Synced = len(t.rebuild.synced)
	}
	for g := range t.rebuild.outstanding {
		report.Backlog[g.Node]++
		s.Outstanding = append(s.Outstanding, g.Node)
	}
	s.Awaited = len(s.Outstanding)
	slices.Sort(s.Outstanding)
	s.Outstanding = s.Outstanding[:min(s.Awaited, schema.MaxOutstanding)]
	report.Slots = append(report.Slots, s)
	report.Users += t.dir.Users()
	for _, c := range t.dir.Counts() {
		counts[schema.NodeCount{Node: c.Node, Flag: c.Flag}] += c.Sessions
	}
}
