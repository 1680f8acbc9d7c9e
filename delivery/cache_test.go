package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// owned is a view in which one authority has every slot.
type owned struct {
	fence, highest schema.Revision
	nobody         bool
}

func (o *owned) Address(s schema.Slot) (schema.Target, schema.Revision, bool) {
	return schema.Target{Slot: s, Fence: o.fence, Authority: gateway(9)}, max(o.fence, o.highest), !o.nobody
}

// timeline is a cache and a clock that stands still by itself.
type timeline struct {
	*cache
	view  *owned
	now   time.Time
	drops []string
}

func newTimeline(most int) *timeline {
	l := &timeline{view: &owned{fence: 5}, now: time.Unix(0, 0)}
	l.cache = newCache(most, func(why dropCause) { l.drops = append(l.drops, string(why)) })
	return l
}

// look begins a look-up; what it gives is called with the answer.
func (l *timeline) look(uid schema.UID) (answered func(Found)) {
	ticket, begun := l.tick(), l.now
	l.ask(uid)
	return func(f Found) { l.keep(ticket, begun, l.now, f) }
}

// answer is a certain one of the present owner.
func (l *timeline) answer(uid schema.UID) Found {
	f := online(uid, route(uid, 1, 1, "phone", "app"))
	f.Target, _, _ = l.view.Address(subjects.SlotOf(uid))
	return f
}

func (l *timeline) has(uid schema.UID) bool {
	_, ok := l.get(l.now, l.view, uid)
	return ok
}

func TestWhatTheCacheKeeps(t *testing.T) {
	slot := subjects.SlotOf("alice")
	for name, c := range map[string]struct {
		during func(l *timeline)   // the look-up
		answer func(f Found) Found // how it differs from a certain one
		after  func(l *timeline)   // it
		has    bool
		drops  string
	}{
		"certain":               {has: true},
		"offline":               {answer: func(f Found) Found { f.State, f.Routes = schema.Offline, nil; return f }, has: true},
		"unknown":               {answer: func(f Found) Found { f.State, f.Routes = schema.Unknown, nil; return f }},
		"partial":               {answer: func(f Found) Found { f.Partial = true; return f }},
		"suspect":               {answer: func(f Found) Found { f.Suspect = true; return f }},
		"event meanwhile":       {during: func(l *timeline) { l.forget("alice", dropEvent) }},
		"of another meanwhile":  {during: func(l *timeline) { l.forget("bob", dropEvent) }, has: true},
		"rebuilt meanwhile":     {during: func(l *timeline) { l.forgetSlot(slot) }},
		"another slot":          {during: func(l *timeline) { l.forgetSlot(slot + 1) }, has: true},
		"losses meanwhile":      {during: func(l *timeline) { l.forgetAll() }},
		"answered after 1 s":    {during: func(l *timeline) { l.now = l.now.Add(cacheLife) }},
		"another look-up":       {during: func(l *timeline) { l.look("alice")(l.answer("alice")) }, has: true},
		"event":                 {after: func(l *timeline) { l.forget("alice", dropEvent) }, drops: "event"},
		"refused":               {after: func(l *timeline) { l.forget("alice", dropRefused) }, drops: "refused"},
		"rebuilt":               {after: func(l *timeline) { l.forgetSlot(slot) }, drops: "rebuilt"},
		"losses":                {after: func(l *timeline) { l.forgetAll() }, drops: "lost"},
		"just under 1 s":        {during: func(l *timeline) { l.now = l.now.Add(cacheLife / 2) }, after: func(l *timeline) { l.now = l.now.Add(cacheLife/2 - 1) }, has: true},
		"1 s from the question": {during: func(l *timeline) { l.now = l.now.Add(cacheLife / 2) }, after: func(l *timeline) { l.now = l.now.Add(cacheLife / 2) }, drops: "aged"},
		"swept":                 {after: func(l *timeline) { l.sweep(l.now.Add(cacheLife)) }, drops: "aged"},
		"swept early":           {after: func(l *timeline) { l.sweep(l.now.Add(cacheLife - 1)) }, has: true},
		"owner moved":           {after: func(l *timeline) { l.view.fence = 6 }, drops: "moved"},
		"higher fence heard of": {after: func(l *timeline) { l.view.highest = 6 }, drops: "moved"},
		"nobody's":              {after: func(l *timeline) { l.view.nobody = true }, drops: "moved"},
		"newer answer first": {during: func(l *timeline) {
			newer := l.answer("alice")
			newer.Stamp.K = 7
			l.look("alice")(newer)
		}, after: func(l *timeline) {
			k, _ := l.get(l.now, l.view, "alice")
			require.EqualValues(t, 7, k.user.Stamp.K, "the older answer came later")
		}, has: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTimeline(10)
			answered, f := l.look("alice"), l.answer("alice")
			if c.during != nil {
				c.during(l)
			}
			if c.answer != nil {
				f = c.answer(f)
			}
			answered(f)
			if c.after != nil {
				c.after(l)
			}
			require.Equal(t, c.has, l.has("alice"))
			require.Equal(t, c.drops, strings.Join(l.drops, " "))
			require.Empty(t, l.flights, "no look-up is under way")
			require.Equal(t, len(l.entries), l.age.Len())
		})
	}
}

func TestAFullCacheGivesTheOldestAway(t *testing.T) {
	l := newTimeline(3)
	for i := range 5 {
		uid := schema.UID(fmt.Sprint("u", i))
		l.look(uid)(l.answer(uid))
	}
	require.Equal(t, []bool{false, false, true, true, true}, []bool{l.has("u0"), l.has("u1"), l.has("u2"), l.has("u3"), l.has("u4")})
	l.look("u2")(l.answer("u2")) // young again
	l.look("u5")(l.answer("u5"))
	require.True(t, l.has("u2"))
	require.False(t, l.has("u3"))
	require.Equal(t, []string{"full", "full", "full"}, l.drops)
}

// A kept answer is told with the ages of now, and nobody can change what is kept.
func TestKeptAnswersAreCopied(t *testing.T) {
	l := newTimeline(3)
	f := l.answer("alice")
	f.Routes[0].Age, f.Routes[0].Idle, f.Routes[0].TTL = time.Minute, time.Second, 300*time.Millisecond
	l.look("alice")(f)
	k, ok := l.get(l.now, l.view, "alice")
	require.True(t, ok)
	shown, _ := k.shown(l.now.Add(400*time.Millisecond), nil)
	require.Equal(t, time.Minute+400*time.Millisecond, shown.Routes[0].Age)
	require.Equal(t, 1400*time.Millisecond, shown.Routes[0].Idle)
	require.Zero(t, shown.Routes[0].TTL)
	shown.Routes[0].Device = "other"
	again, _ := k.shown(l.now, nil)
	require.Equal(t, f.Routes, again.Routes)
	list := []Found{f}
	copied := copies(list)
	list[0].Routes[0].Device = "other"
	require.EqualValues(t, "phone", copied[0].Routes[0].Device)
}
