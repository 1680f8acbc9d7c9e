package authority

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-mesh/rollcall/authority/directory"
	"github.com/rollcall-mesh/rollcall/authority/lease"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// serveSlot answers one request to a slot.
func (w *Worker) serveSlot(m *nats.Msg) {
	_, _, op, ok := w.config.Prefix.ParseSlot(m.Subject)
	if !ok {
		w.log.Debug("subject of no slot", "subject", m.Subject)
		return
	}
	answer := w.answerSlot(op, m.Data)
	if answer == nil {
		w.log.Debug("unknown operation", "subject", m.Subject)
		return
	}
	w.respond(m, answer)
}

func (w *Worker) answerSlot(op subjects.SlotOp, data []byte) schema.Message {
	switch op {
	case subjects.Register:
		return w.register(data)
	case subjects.Commit:
		return w.commit(data)
	case subjects.Unregister:
		return w.unregister(data)
	case subjects.Touch:
		return w.touch(data)
	case subjects.Sync:
		return w.sync(data)
	case subjects.Remove:
		return w.remove(data)
	}
	return nil
}

func (w *Worker) respond(m *nats.Msg, answer schema.Message) {
	body, err := schema.Marshal(answer)
	w.send(m, body, err)
}

// send answers a request. One without a reply subject was sent by mistake, and one whose is the mesh's own,
// or the server's, by no process of it.
func (w *Worker) send(m *nats.Msg, body []byte, err error) {
	if !w.config.Prefix.Answerable(m.Reply) {
		return
	}
	if err == nil {
		err = m.Respond(body)
	}
	if err != nil {
		w.log.Warn("answer not sent", "subject", m.Subject, "err", err)
	}
}

// act is one operation on a directory, run under its lock.
type act func(d *directory.Directory, now time.Time) []schema.Event

// need says what an operation asks of the worker beside the right target.
type need struct {
	lease   bool // a lease whose trust has not run out: what is decided here must not be decided by a successor too
	gateway bool // a living gateway as sender
}

// do is the one path of every slot operation: the target is compared, then the lease, then the
// sender, then whether a successor may stand in the key; then the directory acts. All of it happens
// after the message was taken from the queue.
func (w *Worker) do(head schema.SlotHead, need need, act act) schema.AnswerHead {
	t := w.held[head.Target.Slot].Load()
	answer := w.check(t, head.Target, head.Seen)
	if answer.Code != schema.CodeOK {
		return answer
	}
	if need.lease && answer.Suspect {
		answer.Code, answer.RetryAfter = schema.CodeUnavailable, suspectRetry
		return answer
	}
	standing, value := w.view.Life(lease.Gateway, head.From)
	if need.gateway && standing != lease.Living {
		w.reread(subjects.GatewayKey(head.From.Node))
		answer.Code = schema.CodeRetry
		return answer
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		answer.Code, answer.Differs = schema.CodeMismatch, "fence"
		return answer
	}
	answer.Suspect = answer.Suspect || t.handing
	if need.lease && t.handing { // the successor answers in a moment
		answer.Code = schema.CodeRetry
		return answer
	}
	now := time.Now()
	if need.gateway {
		t.meetLocked(head.From, value.Since, now.Add(w.view.Config().Settle()))
	}
	w.emit(act(t.dir, now))
	return answer
}

// suspectRetry is when a login refused for want of a lease is worth another try.
const suspectRetry = 500 * time.Millisecond

// check compares a request's target with what is held, and fills the head of the answer.
func (w *Worker) check(t *tenure, target schema.Target, seen schema.Revision) schema.AnswerHead {
	if t == nil {
		// The key may name this process already, at a fence that no notice has told of.
		w.reread(subjects.SlotKey(target.Slot))
		known, _ := w.view.Target(target.Slot)
		known.Slot = target.Slot
		code := schema.CodeMismatch
		if known.Fence > target.Fence {
			code = schema.CodeMoved
		}
		return schema.AnswerHead{
			Code:    code,
			Target:  schema.Target{Slot: target.Slot, Authority: w.Me()},
			Seen:    w.view.Highest(target.Slot),
			Differs: target.Differs(known),
			Owner:   known,
		}
	}
	answer := schema.AnswerHead{Target: t.target, Seen: w.view.Highest(target.Slot), Suspect: !w.holder.Trusted()}
	if differs := target.Differs(t.target); differs != "" {
		answer.Code, answer.Differs, answer.Owner = schema.CodeMismatch, differs, t.target
		if target.Fence > t.target.Fence {
			w.reread(subjects.SlotKey(target.Slot))
		}
		return answer
	}
	if seen > t.target.Fence {
		return w.overtaken(answer, seen)
	}
	return answer
}

// broken is the head of the answer to a request that cannot be read.
func broken(err error) schema.AnswerHead {
	return schema.AnswerHead{Code: schema.CodeBad, Why: clip(err.Error())}
}

func clip(s string) string { return s[:min(len(s), 256)] }

// each gives results with room for one an entry, and what fills them: the entries are judged in order.
func each[E, R any](entries []E, judge func(*directory.Directory, time.Time, E) (R, []schema.Event)) ([]R, act) {
	results := make([]R, len(entries))
	return results, func(d *directory.Directory, now time.Time) (events []schema.Event) {
		for i, e := range entries {
			var more []schema.Event
			results[i], more = judge(d, now, e)
			events = append(events, more...)
		}
		return events
	}
}

func (w *Worker) register(data []byte) schema.Message {
	var req schema.Register
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.RegisterAnswer{Head: broken(err)}
	}
	results, act := each(req.Logins, func(d *directory.Directory, now time.Time, l schema.Login) (schema.LoginResult, []schema.Event) {
		if err := checkRoute(req.Head.Target.Slot, &l.Route); err != nil {
			return schema.LoginResult{Code: schema.CodeBad, Why: clip(err.Error())}, nil
		}
		return d.Register(now, req.Head, l)
	})
	head := w.do(req.Head, need{lease: true, gateway: true}, act)
	w.meter.logins("register", results)
	return &schema.RegisterAnswer{Head: head, Results: onlyIfOK(head, results)}
}

func (w *Worker) commit(data []byte) schema.Message {
	var req schema.Commit
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.CommitAnswer{Head: broken(err)}
	}
	results, act := each(req.Entries, func(d *directory.Directory, now time.Time, e schema.CommitEntry) (schema.LoginResult, []schema.Event) {
		return d.Commit(now, req.Head, e)
	})
	head := w.do(req.Head, need{lease: true, gateway: true}, act)
	w.meter.logins("commit", results)
	return &schema.CommitAnswer{Head: head, Results: onlyIfOK(head, results)}
}

func (w *Worker) unregister(data []byte) schema.Message {
	var req schema.Unregister
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.UnregisterAnswer{Head: broken(err)}
	}
	results, act := each(req.Entries, func(d *directory.Directory, now time.Time, e schema.Leave) (schema.Code, []schema.Event) {
		return d.Unregister(now, req.Head, e)
	})
	head := w.do(req.Head, need{gateway: true}, act)
	w.meter.ops.WithLabelValues("unregister").Add(float64(len(results)))
	return &schema.UnregisterAnswer{Head: head, Results: onlyIfOK(head, results)}
}

func (w *Worker) touch(data []byte) schema.Message {
	var req schema.Touch
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.TouchAnswer{Head: broken(err)}
	}
	var exceptions []schema.TouchException
	head := w.do(req.Head, need{gateway: true}, func(d *directory.Directory, now time.Time) []schema.Event {
		exceptions = d.Touch(now, req.Head, req.Sessions)
		return nil
	})
	w.meter.ops.WithLabelValues("touch").Add(float64(len(req.Sessions)))
	return &schema.TouchAnswer{Head: head, Exceptions: exceptions}
}

func (w *Worker) sync(data []byte) schema.Message {
	var req schema.Sync
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.SyncAnswer{Head: broken(err)}
	}
	for i := range req.Routes {
		if err := checkRoute(req.Head.Target.Slot, &req.Routes[i]); err != nil {
			return &schema.SyncAnswer{Head: broken(err)}
		}
	}
	var answer schema.SyncAnswer
	answer.Head = w.do(req.Head, need{gateway: true}, func(d *directory.Directory, now time.Time) (events []schema.Event) {
		answer.Verdicts, answer.Losers, events = d.Sync(now, req.Head, req.Routes)
		return events
	})
	if req.Last && answer.Head.Code == schema.CodeOK {
		w.synced(req.Head)
	}
	w.meter.ops.WithLabelValues("sync").Add(float64(len(req.Routes)))
	return &answer
}

// synced notes a gateway's last chunk; where it was the last one awaited, the rebuild ends here.
func (w *Worker) synced(head schema.SlotHead) {
	t := w.held[head.Target.Slot].Load()
	if t == nil || t.target != head.Target {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.syncedLocked(head.From)
		w.emit(t.settleLocked(time.Now()))
	}
}

func (w *Worker) remove(data []byte) schema.Message {
	var req schema.Remove
	if err := schema.Unmarshal(data, &req); err != nil {
		return &schema.RemoveAnswer{Head: broken(err)}
	}
	removed := 0
	head := w.do(req.Head, need{}, func(d *directory.Directory, now time.Time) (events []schema.Event) {
		removed, events = d.Remove(now, req.Entries)
		return events
	})
	w.meter.ops.WithLabelValues("remove").Add(float64(removed))
	return &schema.RemoveAnswer{Head: head, Removed: uint32(removed)}
}

func onlyIfOK[T any](head schema.AnswerHead, results []T) []T {
	if head.Code != schema.CodeOK {
		return nil
	}
	return results
}

// checkRoute tells what is wrong with a route from a gateway, or returns nil.
func checkRoute(slot schema.Slot, r *schema.Route) error {
	if err := r.UID.Check(); err != nil {
		return err
	}
	if own := subjects.SlotOf(r.UID); own != slot {
		return fmt.Errorf("uid %q is of slot %d, not %d", string(r.UID), own, slot)
	}
	if err := r.Device.Check(); err != nil {
		return err
	}
	if err := r.Flag.Check(); err != nil {
		return err
	}
	return r.Listener.Check()
}
