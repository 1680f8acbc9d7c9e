package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
)

func TestRegistryNeverGivesANumberTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r registry
		here := map[schema.SessionNum]*session{}
		gone := map[schema.SessionNum]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(here) == 0 || rapid.Bool().Draw(t, "add") {
				s := new(session)
				r.add(s)
				if here[s.num] != nil || gone[s.num] || s.num == 0 {
					t.Fatalf("number %d was given before", s.num)
				}
				here[s.num] = s
				continue
			}
			nums := make([]schema.SessionNum, 0, len(here))
			for n := range here {
				nums = append(nums, n)
			}
			slices.Sort(nums)
			n := rapid.SampledFrom(nums).Draw(t, "remove")
			r.remove(n)
			r.remove(n)
			delete(here, n)
			gone[n] = true
		}
		if r.len() != len(here) {
			t.Fatalf("counts %d of %d", r.len(), len(here))
		}
		for n, s := range here {
			if r.find(n) != s {
				t.Fatalf("%d not found", n)
			}
		}
		for n := range gone {
			if r.find(n) != nil || r.find(n+1<<32) != nil && here[n+1<<32] == nil {
				t.Fatalf("%d found after its end", n)
			}
		}
	})
}

func TestRegistryPages(t *testing.T) {
	var r registry
	var all []*session
	for range 5 {
		s := new(session)
		r.add(s)
		all = append(all, s)
	}
	r.remove(all[2].num)
	require.Equal(t, []*session{all[0], all[1]}, r.page(0, 2))
	require.Equal(t, []*session{all[3], all[4]}, r.page(all[1].num, 9))
	require.Empty(t, r.page(all[4].num, 9))
}

// TestLedger checks the mark against its definition: the number below the lowest open one.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		open := map[schema.OwnerSeq]bool{}
		last := schema.OwnerSeq(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "draw") {
				seq := l.draw()
				if seq != last+1 {
					t.Fatalf("drew %d after %d", seq, last)
				}
				last = seq
				open[seq] = true
			} else if last > 0 {
				seq := schema.OwnerSeq(rapid.IntRange(1, int(last)).Draw(t, "close"))
				l.close(seq)
				delete(open, seq)
			}
			want := last
			for seq := schema.OwnerSeq(1); seq <= last; seq++ {
				if open[seq] {
					want = seq - 1
					break
				}
			}
			if got := l.settled(); got != want {
				t.Fatalf("settled %d, want %d", got, want)
			}
		}
	})
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{first: 10 * time.Millisecond, most: 50 * time.Millisecond}
		var waits []time.Duration
		wait := func(ctx context.Context, atLeast time.Duration) error {
			start := time.Now()
			err := p.wait(ctx, atLeast)
			waits = append(waits, time.Since(start))
			return err
		}
		for range 4 {
			require.NoError(t, wait(t.Context(), 0))
		}
		require.NoError(t, wait(t.Context(), time.Second))
		p.reset()
		require.NoError(t, wait(t.Context(), 0))
		ms := time.Millisecond
		require.Equal(t, []time.Duration{10 * ms, 20 * ms, 40 * ms, 50 * ms, time.Second, 10 * ms}, waits)

		ctx, cancel := context.WithTimeout(t.Context(), 15*ms)
		defer cancel()
		require.ErrorIs(t, p.wait(ctx, 0), errNoTime, "the next wait is 20 ms")
		require.NoError(t, ctx.Err(), "without waiting")
	})
}

func TestAllowance(t *testing.T) {
	a := allowance{left: 3}
	for range 3 {
		require.True(t, a.take(0, 10, 3))
	}
	require.False(t, a.take(0, 10, 3))
	require.False(t, a.take(50*time.Millisecond, 10, 3), "half a frame")
	require.True(t, a.take(100*time.Millisecond, 10, 3))
	require.False(t, a.exhausted(3))
	for range 4 {
		a.take(100*time.Millisecond, 10, 3)
	}
	require.True(t, a.exhausted(3))
	require.True(t, a.take(time.Hour, 10, 3))
	require.False(t, a.exhausted(3))
	require.InDelta(t, 2, a.left, 0.01, "no more than a burst is saved up")
}

func TestOutbox(t *testing.T) {
	var o outbox
	big := make([]byte, 100)
	require.True(t, o.add(big, 3, 10), "an empty one takes any one frame")
	require.False(t, o.add([]byte("x"), 3, 10))
	require.Len(t, o.take(), 1)
	require.True(t, o.add([]byte("12345"), 3, 10))
	require.True(t, o.add([]byte("12345"), 3, 10))
	require.False(t, o.add([]byte("1"), 3, 10), "bytes")
	require.Len(t, o.take(), 2)
	for range 3 {
		require.True(t, o.add(nil, 3, 10))
	}
	require.False(t, o.add(nil, 3, 10), "frames")
}

func TestAcks(t *testing.T) {
	var a acks
	for n := range uint64(maxOpenAcks) {
		got, ok := a.bind(owed{since: time.Second})
		require.True(t, ok)
		require.Equal(t, n+1, got)
	}
	_, ok := a.bind(owed{since: ackLife})
	require.False(t, ok, "the overflow is an outcome")
	a.take(7, true)
	a.take(7, true)
	n, ok := a.bind(owed{since: ackLife})
	require.True(t, ok)
	require.Equal(t, uint64(maxOpenAcks+1), n)
	_, ok = a.bind(owed{since: time.Second + ackLife})
	require.True(t, ok, "old ones are no longer awaited")
	require.Len(t, a.open, 2)
}

// TestAckWait checks that a wait ends with the last acknowledgement that it waits for, whichever
// way each ends, and not while its message is still being written.
func TestAckWait(t *testing.T) {
	require.Nil(t, newAckWait(&schema.Push{Frames: []schema.PushFrame{{Ack: true}, {AckWait: time.Second}}}))
	w := newAckWait(&schema.Push{Frames: []schema.PushFrame{{Ack: true, AckWait: time.Second}, {Ack: true, AckWait: time.Hour}}})
	require.Equal(t, ackLife, w.most)
	var given, closed, nobody acks
	n, _ := given.bind(owed{wait: w, place: 2})
	given.take(n, true)
	require.Equal(t, 1, w.open, "the message is being written")
	closed.bind(owed{wait: w, place: 0})
	n, _ = closed.bind(owed{wait: w, place: 1})
	_, ok := nobody.bind(owed{})
	require.True(t, ok)
	require.Equal(t, 3, w.written())
	closed.take(n, true)
	closed.take(n, true)
	require.Equal(t, 1, w.open)
	closed.abandon()
	<-w.done
	nobody.abandon()
	before := []schema.PushResult{schema.PushWritten, schema.PushWritten, schema.PushWritten, schema.PushNoSession}
	require.Equal(t, []schema.PushResult{schema.PushWritten, schema.PushAcked, schema.PushAcked, schema.PushNoSession}, w.results(before))
	require.Equal(t, schema.PushWritten, before[1])
}

// A life that has ended waits for nobody, and leaves nobody waiting: a caller in this process might have no
// end to its patience.
func TestAckWaitOfALifeThatHasEnded(t *testing.T) {
	l := &life{ended: true}
	l.ackWaits.Add(1)
	told := false
	new(Gateway).followAcks(l, &ackWait{most: time.Hour, done: make(chan struct{})}, func() { told = true })
	require.True(t, told)
	require.Zero(t, l.ackWaits.Load())
}

// TestTooManyAckWaits: one more message than may wait is written, and its sender told at once that no word of
// the devices follows; there is room again when one has ended.
func TestTooManyAckWaits(t *testing.T) {
	c, l := gather(t, 1), new(life)
	s := c.sessions[0]
	s.who.UID, s.life, s.seqs = "bob", l, []schema.OwnerSeq{1}
	c.g.registry.add(s)
	push := func() ([]schema.PushResult, *ackWait) {
		return c.g.pushFrames(l, &schema.Push{Frames: []schema.PushFrame{{
			ID: "m", Payload: []byte("1"), Ack: true, AckWait: time.Second, Recipients: []schema.Recipient{{UID: "bob", Session: s.num, Seq: 1}},
		}}})
	}
	for range maxAckWaits {
		results, wait := push()
		require.Equal(t, []schema.PushResult{schema.PushWritten}, results)
		require.NotNil(t, wait)
		s.acks.take(s.acks.last, true) // nobody but the sender's wait is still open
		c.drain()
	}
	results, wait := push()
	require.Equal(t, []schema.PushResult{schema.PushWritten}, results)
	require.Nil(t, wait)
	l.ackWaits.Add(-1) // as when a wait has ended
	_, wait = push()
	require.NotNil(t, wait)
}

// TestLanes checks that one batch of a key is under way at a time, that what waits goes together,
// and that what is given back is tried again.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		var mu sync.Mutex
		var batches [][]int
		var fail atomic.Bool
		fail.Store(true)
		l := &lanes[string, int]{
			most: 3, first: time.Second, last: 4 * time.Second,
			spawn: func(f func(context.Context)) bool { wg.Go(func() { f(ctx) }); return true },
			send: func(_ context.Context, _ string, batch []int) []int {
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				batches = append(batches, batch)
				if fail.Load() {
					return batch
				}
				return nil
			},
		}
		l.add("a", 1)
		synctest.Wait()
		for n := 2; n <= 5; n++ {
			l.add("a", n)
		}
		require.Equal(t, 5, l.len())
		pass(1050 * time.Millisecond)
		fail.Store(false)
		pass(time.Minute)
		require.Zero(t, l.len())
		require.Equal(t, [][]int{{1}, {1, 2, 3}, {4, 5}}, batches)
		require.Empty(t, l.waiting)

		fail.Store(true)
		l.add("b", 1)
		pass(time.Minute)
		require.Equal(t, 1, l.len())
		cancel()
		wg.Wait()
		require.Zero(t, l.len(), "the end of the life drops what is left")
	})
}

func TestSince(t *testing.T) {
	var s since
	require.Equal(t, schema.Revision(5), s.at(5, 0))
	require.Equal(t, schema.Revision(5), s.at(6, 1), "there is a socket")
	require.Equal(t, schema.Revision(7), s.at(7, 0))
	require.Equal(t, schema.Revision(7), s.at(7, 1))
	require.Zero(t, s.at(6, 1), "the log has lost its tail: 7 will be another write")
	require.Zero(t, s.at(9, 1))
	require.Equal(t, schema.Revision(8), s.at(8, 0), "it has no socket now")
	require.Equal(t, schema.Revision(5), s.at(5, 0))
	s.adopted(false)
	require.Equal(t, schema.Revision(8), s.at(8, 0))
	s.reset()
	require.Zero(t, s.at(9, 3), "another life, with sockets")
	s.adopted(true)
	require.Zero(t, s.at(10, 0), "never again in this life")
	s.reset()
	require.Equal(t, schema.Revision(11), s.at(11, 0))
}

func TestCloseReason(t *testing.T) {
	require.Equal(t, "kicked by another login", ending{code: schema.CloseKicked}.text())
	var long strings.Builder
	for range 100 {
		long.WriteString("é")
	}
	got := ending{reason: long.String() + "\xff"}.text()
	require.Equal(t, long.String()[:122], got, "whole characters only")
	require.Equal(t, schema.CloseKicked, closeCode(schema.CloseKicked, schema.CloseInternal))
	for _, never := range []schema.CloseCode{0, 1005, 1006, 1015, 4000, 65535} {
		require.Equal(t, schema.CloseInternal, closeCode(never, schema.CloseInternal))
	}
}
