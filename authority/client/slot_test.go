package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

const slot7 = schema.Slot(7)

// owner is the target of slot 7 in views made by newView(a1).
var owner = schema.Target{Slot: slot7, Fence: 10, Authority: a1}

func login(n int) schema.Login {
	return schema.Login{Route: schema.Route{UID: schema.UID(fmt.Sprint("u", n)), Owner: g1, Flag: "app", Listener: "ws",
		Session: schema.SessionNum(n), Seq: schema.OwnerSeq(n)}}
}

// register answers each login with an order that is its seq, after a second.
func register(heads chan<- schema.SlotHead) func([]byte) schema.Message {
	return func(data []byte) schema.Message {
		req := read(data, new(schema.Register))
		time.Sleep(100 * time.Millisecond)
		heads <- req.Head
		answer := &schema.RegisterAnswer{Head: schema.AnswerHead{Target: req.Head.Target}}
		for _, l := range req.Logins {
			answer.Results = append(answer.Results, schema.LoginResult{Order: schema.Order{Fence: 10, N: uint64(l.Route.Seq)}})
		}
		return answer
	}
}

func TestRegistersGoTogether(t *testing.T) {
	n, heads := newNATS(), make(chan schema.SlotHead, 10)
	n.handle("slot.7.10.register", register(heads))
	config := Config{Settled: func(p schema.Process) schema.OwnerSeq { return schema.OwnerSeq(len(p.Node)) }}
	runWith(t, newView(a1), n, config, func(t *testing.T, c *Client) {
		c.view.Saw(slot7, 10)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				r, err := c.Register(t.Context(), owner, login(i))
				require.NoError(t, err)
				require.EqualValues(t, i, r.Order.N, "each caller gets its own result")
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, 2, n.times("slot.7.10.register"))
		require.Equal(t, schema.SlotHead{Target: owner, Seen: 10, From: g1, Settled: 2}, <-heads)
	})
}

func TestWhatCannotBeWrittenSpoilsNoOther(t *testing.T) {
	n, heads := newNATS(), make(chan schema.SlotHead, 10)
	n.handle("slot.7.10.register", register(heads))
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				l := login(i)
				if i == 3 {
					l.Route.UID = ""
				}
				r, err := c.Register(t.Context(), owner, l)
				if i == 3 {
					require.ErrorIs(t, err, schema.ErrMalformed)
					return
				}
				require.NoError(t, err)
				require.EqualValues(t, i, r.Order.N)
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, 4, n.times("slot."), "the first, then one by one")
	})
}

func TestWhoHasLeftIsNotSent(t *testing.T) {
	n, heads := newNATS(), make(chan schema.SlotHead, 10)
	n.handle("slot.7.10.register", register(heads))
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Register(t.Context(), owner, login(1)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.Equal(t, 10*time.Millisecond, took(func() {
			_, err := c.Register(ctx, owner, login(2))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}))
		wg.Wait()
		require.Equal(t, 1, n.times("slot.7.10.register"))
	})
}

// calls makes each operation that goes to a slot's owner, for at most so long a try.
func calls(c *Client) map[subjects.SlotOp]struct {
	try  time.Duration
	call func(context.Context) error
} {
	type entry = struct {
		try  time.Duration
		call func(context.Context) error
	}
	return map[subjects.SlotOp]entry{
		subjects.Register: {500 * time.Millisecond, func(ctx context.Context) error {
			_, err := c.Register(ctx, owner, login(1))
			return err
		}},
		subjects.Commit: {500 * time.Millisecond, func(ctx context.Context) error {
			_, err := c.Commit(ctx, owner, g1, schema.CommitEntry{UID: "u", Token: "t"})
			return err
		}},
		subjects.Unregister: {2 * time.Second, func(ctx context.Context) error {
			_, err := c.Unregister(ctx, owner, g1, []schema.Leave{{UID: "u", Seq: 1}})
			return err
		}},
		subjects.Touch: {2 * time.Second, func(ctx context.Context) error {
			_, err := c.Touch(ctx, owner, g1, []schema.Touched{{Session: 1}})
			return err
		}},
		subjects.Sync: {2 * time.Second, func(ctx context.Context) error {
			_, err := c.Sync(ctx, owner, g1, true, []schema.Route{{UID: "u", Owner: g1, Flag: "app", Listener: "ws", Seq: 1}})
			return err
		}},
		subjects.Remove: {2 * time.Second, func(ctx context.Context) error {
			_, err := c.Remove(ctx, owner, []schema.Disowned{{UID: "u", Owner: g1, Seq: 1}})
			return err
		}},
	}
}

// answers gives for each operation an answer with a head and the results that one entry wants.
func answers(h schema.AnswerHead, results int) map[subjects.SlotOp]schema.Message {
	return map[subjects.SlotOp]schema.Message{
		subjects.Register:   &schema.RegisterAnswer{Head: h, Results: make([]schema.LoginResult, results)},
		subjects.Commit:     &schema.CommitAnswer{Head: h, Results: make([]schema.LoginResult, results)},
		subjects.Unregister: &schema.UnregisterAnswer{Head: h, Results: make([]schema.Code, results)},
		subjects.Touch:      &schema.TouchAnswer{Head: h},
		subjects.Sync:       &schema.SyncAnswer{Head: h, Verdicts: make([]schema.SyncVerdict, results)},
		subjects.Remove:     &schema.RemoveAnswer{Head: h},
	}
}

func TestOutcomes(t *testing.T) {
	later := schema.Target{Slot: slot7, Fence: 30, Authority: a2}
	silent := func(subjects.SlotOp) schema.Message { return nil }
	head := func(h schema.AnswerHead) func(subjects.SlotOp) schema.Message {
		return func(op subjects.SlotOp) schema.Message { return answers(h, 1)[op] }
	}
	for name, tc := range map[string]struct {
		answer func(subjects.SlotOp) schema.Message
		want   error // nil: none
		reads  int   // of the slot's key
		seen   schema.Revision
	}{
		"ok":               {answer: head(schema.AnswerHead{Target: owner})},
		"ok, seen":         {answer: head(schema.AnswerHead{Target: owner, Seen: 9})},
		"silence":          {answer: silent, want: ErrTimeout},
		"mismatch":         {answer: head(schema.AnswerHead{Code: schema.CodeMismatch, Target: owner, Differs: "boot", Owner: later}), want: schema.ErrMismatch, reads: 1, seen: 30},
		"moved":            {answer: head(schema.AnswerHead{Code: schema.CodeMoved, Target: owner, Owner: later}), want: schema.ErrMismatch, reads: 1, seen: 30},
		"retry":            {answer: head(schema.AnswerHead{Code: schema.CodeRetry, Target: owner}), want: schema.ErrRetry},
		"unavailable":      {answer: head(schema.AnswerHead{Code: schema.CodeUnavailable, Target: owner, RetryAfter: time.Second}), want: schema.ErrUnavailable},
		"internal":         {answer: head(schema.AnswerHead{Code: schema.CodeInternal, Target: owner}), want: schema.ErrInternal},
		"by another":       {answer: head(schema.AnswerHead{Target: later}), want: schema.ErrMismatch, reads: 1, seen: 30},
		"overtaken":        {answer: head(schema.AnswerHead{Target: owner, Seen: 11}), want: schema.ErrStale, reads: 1, seen: 11},
		"wrong kind":       {answer: func(subjects.SlotOp) schema.Message { return &schema.KickAnswer{} }, want: ErrAnswer},
		"too many results": {answer: func(op subjects.SlotOp) schema.Message { return answers(schema.AnswerHead{Target: owner}, 2)[op] }, want: ErrAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			n, v := newNATS(), newView(a1)
			run(t, v, n, func(t *testing.T, c *Client) {
				for op, call := range calls(c) {
					if name == "too many results" && (op == subjects.Touch || op == subjects.Remove) {
						continue // they have no result an entry
					}
					c.slots[slot7], v.reads = slotNote{}, nil
					v.highest[slot7] = 10
					n.handle("slot.7.10."+string(op), func([]byte) schema.Message { return tc.answer(op) })
					var err error
					time := took(func() { err = call.call(t.Context()) })
					require.ErrorIs(t, err, tc.want, op)
					if tc.want == ErrTimeout {
						require.Equal(t, call.try, time, op)
					} else {
						require.Zero(t, time, op)
					}
					synctest.Wait()
					require.Equal(t, tc.reads, v.readsOf(slot7), op)
					require.Equal(t, max(10, tc.seen), v.Highest(slot7), op)
				}
			})
		})
	}
}

func TestRefusalTells(t *testing.T) {
	n := newNATS()
	later := schema.Target{Slot: slot7, Fence: 30, Authority: a2}
	n.handle("slot.7.10.register", func([]byte) schema.Message {
		return &schema.RegisterAnswer{Head: schema.AnswerHead{Code: schema.CodeMismatch, Target: owner, Differs: "fence", Owner: later}}
	})
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		_, err := c.Register(t.Context(), owner, login(1))
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, later, refusal.Head.Owner)
		require.EqualError(t, err, "slot 7 fence 10 at a1/xxxxxxxxxxxxxxxxxxxxxx answered mismatch: fence differs, owner is slot 7 fence 30 at a2/yyyyyyyyyyyyyyyyyyyyyy")
	})
}

func TestInterestTravels(t *testing.T) {
	n := newNATS()
	run(t, newView(a1), n, func(t *testing.T, c *Client) {
		ask := func() error {
			_, err := c.Touch(t.Context(), owner, g1, []schema.Touched{{Session: 1}})
			return err
		}
		require.Equal(t, 75*time.Millisecond, took(func() { require.ErrorIs(t, ask(), ErrNoResponders) }))
		require.Equal(t, 5, n.times("slot."))
		time.Sleep(time.Second)
		require.Zero(t, took(func() { require.ErrorIs(t, ask(), ErrNoResponders) }), "the fence is known long enough")
		require.Equal(t, 6, n.times("slot."))

		c.view.(*fakeView).give(slot7, 11, a1)
		young := schema.Target{Slot: slot7, Fence: 11, Authority: a1}
		time.AfterFunc(14*time.Millisecond, func() {
			n.handle("slot.7.11.touch", func([]byte) schema.Message { return &schema.TouchAnswer{Head: schema.AnswerHead{Target: young}} })
		})
		require.Equal(t, 15*time.Millisecond, took(func() {
			_, err := c.Touch(t.Context(), young, g1, []schema.Touched{{Session: 1}})
			require.NoError(t, err)
		}))
	})
}

func TestKeyIsReadOnceAndNotTooOften(t *testing.T) {
	n, v := newNATS(), newView(a1)
	v.keys[subjects.SlotKey(slot7)] = func() error {
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	run(t, v, n, func(t *testing.T, c *Client) {
		c.learn(owner)
		time.Sleep(time.Second)
		begun := time.Now()
		for time.Since(begun) < 5*time.Second {
			_, err := c.Remove(t.Context(), owner, []schema.Disowned{{UID: "u", Owner: g1, Seq: 1}})
			require.ErrorIs(t, err, ErrNoResponders)
			time.Sleep(time.Millisecond)
		}
		// at 0, 50, 150, 350, 750 ms, then every second
		require.Equal(t, 9, v.readsOf(slot7))
		c.view.Saw(slot7, 99)
		_, _ = c.Remove(t.Context(), owner, []schema.Disowned{{UID: "u", Owner: g1, Seq: 1}})
		time.Sleep(time.Millisecond)
		require.Equal(t, 10, v.readsOf(slot7), "a higher fence was heard of")
	})
}

func TestDeposedIsNotAsked(t *testing.T) {
	n, v := newNATS(), newView(a1)
	run(t, v, n, func(t *testing.T, c *Client) {
		v.give(slot7, 30, a2)
		for op, call := range calls(c) {
			require.ErrorIs(t, call.call(t.Context()), schema.ErrStale, op)
		}
		require.Empty(t, n.asked)
		v.give(slot7, 10, a1) // the key goes back: a server has lost its tail
		_ = calls(c)[subjects.Touch].call(t.Context())
		require.NotEmpty(t, n.asked, "being asked makes its fence rise")
	})
}

func TestTarget(t *testing.T) {
	v := newView()
	v.keys[subjects.SlotKey(3)] = func() error {
		v.give(3, 5, a2)
		return nil
	}
	run(t, v, newNATS(), func(t *testing.T, c *Client) {
		got, err := c.Target(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, schema.Target{Slot: 3, Fence: 5, Authority: a2}, got)
		_, err = c.Target(t.Context(), 4)
		require.ErrorIs(t, err, ErrUnowned)
		_, err = c.Target(t.Context(), 4)
		require.ErrorIs(t, err, ErrUnowned)
		require.Equal(t, 1, v.readsOf(4))
	})
}
