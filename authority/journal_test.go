package authority

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stream is what a journal's messages come to: it takes each id once.
type stream struct {
	ids  map[string]bool
	kept []*entry
}

func (s *stream) take(e *entry) {
	if !s.ids[e.id] {
		s.ids[e.id] = true
		s.kept = append(s.kept, e)
	}
}

// requireOrder checks that what was taken of a subject was taken in the order in which it was added.
func (s *stream) requireOrder(t *rapid.T, added []*entry) {
	for _, subject := range []string{"a", "b", "c"} {
		var want, got []string
		for _, e := range added {
			if e.subject == subject && s.ids[e.id] {
				want = append(want, e.id)
			}
		}
		for _, e := range s.kept {
			if e.subject == subject {
				got = append(got, e.id)
			}
		}
		require.Equal(t, want, got, "order of %s", subject)
	}
}

// TestJournalKeepsOrder sends a journal's messages over a way that loses, delays and repeats messages
// and answers, into a stream that at times refuses them. Whatever happens, a subject's messages are
// stored in their order, and each one is stored or told as lost.
func TestJournalKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		j, s := newJournal(), &stream{ids: map[string]bool{}}
		lost := map[string]bool{}
		var added []*entry
		var answers []func() // on their way back
		deliver := func(e *entry) {
			switch rapid.SampledFrom([]string{"stored", "stored", "stored", "request lost", "answer lost", "refused"}).Draw(t, "fate") {
			case "stored":
				s.take(e)
				answers = append(answers, func() { j.stored(e.number) })
			case "answer lost":
				s.take(e)
			case "refused":
				answers = append(answers, func() { j.refused(now, e.number) })
			}
		}
		work := func() {
			for _, e := range j.expire(now) {
				lost[e.id] = true
			}
			for _, e := range j.due(now) {
				if e.flying {
					deliver(e)
				}
			}
		}
		for n := range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "answer", "wait", "work"}).Draw(t, "step") {
			case "add":
				e := &entry{id: fmt.Sprint(n), subject: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "subject")}
				added = append(added, e)
				flies, ok := j.add(now, e)
				require.True(t, ok)
				if flies {
					deliver(e)
				}
			case "answer":
				if len(answers) > 0 {
					i := rapid.IntRange(0, len(answers)-1).Draw(t, "which")
					answers[i]()
					answers = slices.Delete(answers, i, i+1)
				}
			case "wait":
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, 3 * time.Second, 20 * time.Second}).Draw(t, "wait"))
			case "work":
				work()
			}
			require.LessOrEqual(t, j.inFlight, maxFlying)
			require.GreaterOrEqual(t, j.inFlight, 0)
		}
		for range 100 { // the way is clear from now on, but for what fate says
			work()
			for _, answer := range answers {
				answer()
			}
			answers = nil
			now = now.Add(time.Second)
		}
		require.Zero(t, j.unstored())
		require.Zero(t, j.inFlight)
		require.Empty(t, j.last)
		s.requireOrder(t, added)
		for _, e := range added {
			require.True(t, s.ids[e.id] || lost[e.id], "%s was neither stored nor told as lost", e.id)
		}
	})
}

// TestJournalIsBounded fills it: what does not fit is refused at once, what is in it is given up after
// a minute, and no more than one at a time is tried while nothing is taken.
func TestJournalIsBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	j := newJournal()
	flown := 0
	for n := range maxUnstored {
		flies, ok := j.add(now, &entry{subject: fmt.Sprint(n)})
		require.True(t, ok)
		if flies {
			flown++
		}
	}
	require.Equal(t, maxFlying, flown)
	_, ok := j.add(now, &entry{subject: "one more"})
	require.False(t, ok)
	tries := 0
	for range 59 {
		now = now.Add(time.Second)
		require.Empty(t, j.expire(now))
		tries += len(j.due(now))
	}
	require.Positive(t, tries)
	require.LessOrEqual(t, tries, 30)
	require.Len(t, j.expire(now.Add(time.Second)), maxUnstored)
	require.Empty(t, j.line)
}

// TestJournalPassesWhatIsNeverTaken: one message that the stream refuses each time does not hold the
// others up.
func TestJournalPassesWhatIsNeverTaken(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	j := newJournal()
	bad := &entry{subject: "bad"}
	j.add(now, bad)
	j.refused(now, bad.number)
	for n := range 100 {
		j.add(now, &entry{subject: fmt.Sprint(n)})
	}
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		for _, e := range j.due(now) {
			if e == bad {
				j.refused(now, e.number)
			} else {
				j.stored(e.number)
			}
		}
	}
	require.Equal(t, 1, j.unstored())
	require.Len(t, j.expire(now.Add(repeatFor)), 1)
}
