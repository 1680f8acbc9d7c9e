package client

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// authority answers look-ups for the slots that it holds.
type authority struct {
	me    schema.Process
	delay time.Duration
	mute  bool // never answers
	most  int  // uids answered at once; 0: all

	mu         sync.Mutex
	holds      map[schema.Slot]schema.Revision
	owners     map[schema.Slot]schema.Target // named where it does not hold
	rebuilding map[schema.Slot]bool
	sizes      []int // uids of each request
}

// serve lets an authority answer on a fake NATS; it holds the slots that v gives it.
func serve(n *fakeNATS, v *fakeView, p schema.Process) *authority {
	a := &authority{me: p, holds: map[schema.Slot]schema.Revision{}, owners: map[schema.Slot]schema.Target{}, rebuilding: map[schema.Slot]bool{}}
	for s, t := range v.slots {
		if t.Authority == p {
			a.holds[s] = t.Fence
		}
	}
	n.handle("authority."+string(p.Node)+"."+string(p.Boot)+".lookup", a.answer)
	return a
}

// routesOf says how many routes everybody finds of a uid.
func routesOf(uid schema.UID) int { return len(uid) % 3 }

func (a *authority) answer(data []byte) schema.Message {
	req := read(data, new(schema.Lookup))
	time.Sleep(a.delay)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sizes = append(a.sizes, len(req.UIDs))
	if a.mute {
		return nil
	}
	answer := &schema.LookupAnswer{ProcessHead: schema.ProcessHead{From: a.me}}
	uids := req.UIDs
	for _, g := range req.Groups {
		mine := schema.Target{Slot: g.Target.Slot, Fence: a.holds[g.Target.Slot], Authority: a.me}
		said := schema.GroupAnswer{Target: mine, Rebuilding: a.rebuilding[mine.Slot], Stamp: schema.Stamp{Fence: mine.Fence, K: 1}}
		if field := g.Target.Differs(mine); field != "" {
			said = schema.GroupAnswer{Code: schema.CodeMismatch, Target: mine, Differs: field, Owner: a.owners[mine.Slot]}
		}
		answer.Groups = append(answer.Groups, said)
		for _, uid := range uids[:g.Count] {
			if a.most > 0 && len(answer.Counts) == a.most {
				break
			}
			answer.Counts = append(answer.Counts, 0)
			for n := 0; said.Code == schema.CodeOK && n < routesOf(uid); n++ {
				answer.Counts[len(answer.Counts)-1]++
				answer.Routes = append(answer.Routes, schema.Route{Owner: g1, Session: schema.SessionNum(n + 1), Flag: "app", Listener: "ws", Device: schema.DeviceID(uid)})
			}
		}
		uids = uids[g.Count:]
	}
	return answer
}

func (a *authority) requests() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sizes
}

func uids(n int) []schema.UID {
	list := make([]schema.UID, n)
	for i := range list {
		list[i] = schema.UID(fmt.Sprint("user-", i*i*i%1009))
	}
	return list
}

// requireFound checks one answer that is not unknown.
func requireFound(t require.TestingT, uid schema.UID, f Found, msg ...any) {
	require.Equal(t, uid, f.UID, msg...)
	require.Len(t, f.Routes, routesOf(uid), msg...)
	want := schema.Online
	if routesOf(uid) == 0 {
		want = schema.Offline
	}
	require.Equal(t, want, f.State, msg...)
	for i, r := range f.Routes {
		require.Equal(t, uid, r.UID, msg...)
		require.EqualValues(t, uid, r.Device, msg...)
		require.EqualValues(t, i+1, r.Session, msg...)
	}
}

func TestLookupAligns(t *testing.T) {
	n, v := newNATS(), newView(a1, a2)
	one, two := serve(n, v, a1), serve(n, v, a2)
	run(t, v, n, func(t *testing.T, c *Client) {
		list := append(uids(900), uids(100)...)
		for i, f := range c.Lookup(t.Context(), list) {
			requireFound(t, list[i], f, i)
			require.Equal(t, subjects.SlotOf(list[i]), f.Target.Slot)
			require.Equal(t, schema.Stamp{Fence: 10, K: 1}, f.Stamp)
		}
		require.Len(t, one.requests(), 1, "one request a process")
		require.Len(t, two.requests(), 1)
		require.Empty(t, c.Lookup(t.Context(), nil))
	})
}

func TestWhoIsNoUIDSpoilsNoOther(t *testing.T) {
	n, v := newNATS(), newView(a1)
	serve(n, v, a1)
	run(t, v, n, func(t *testing.T, c *Client) {
		got := c.Lookup(t.Context(), []schema.UID{"four", "", "a\x00"})
		requireFound(t, "four", got[0])
		for _, f := range got[1:] {
			require.Equal(t, schema.Unknown, f.State)
		}
	})
}

func TestLookupLarge(t *testing.T) {
	n, v := newNATS(), newView(a1)
	one := serve(n, v, a1)
	one.most = 700
	run(t, v, n, func(t *testing.T, c *Client) {
		list := uids(20_000)
		for i, f := range c.Lookup(t.Context(), list) {
			requireFound(t, list[i], f, i)
		}
		for _, n := range one.requests() {
			require.LessOrEqual(t, n, maxRequestUIDs)
		}
	})
}

func TestSingleLookupsGoTogether(t *testing.T) {
	n, v := newNATS(), newView(a1)
	one := serve(n, v, a1)
	one.delay = 10 * time.Millisecond
	run(t, v, n, func(t *testing.T, c *Client) {
		var wg sync.WaitGroup
		for _, uid := range uids(512) {
			wg.Go(func() {
				require.LessOrEqual(t, took(func() { requireFound(t, uid, c.Lookup(t.Context(), []schema.UID{uid})[0]) }), 20*time.Millisecond)
			})
		}
		wg.Wait()
		require.Len(t, one.requests(), 2)
		require.Equal(t, Stats{Lookups: 512, UIDs: 512, Requests: 2}, c.Stats())
	})
}

func TestStaleGroupIsRetriedAlone(t *testing.T) {
	n, v := newNATS(), newView(a1, a2)
	one, two := serve(n, v, a1), serve(n, v, a2)
	// Slot 4 has moved from a1 to a2, and nobody has heard of it yet.
	moved := schema.Target{Slot: 4, Fence: 50, Authority: a2}
	delete(one.holds, 4)
	one.owners[4], two.holds[4] = moved, 50
	v.keys[subjects.SlotKey(4)] = func() error {
		v.give(4, 50, a2)
		return nil
	}
	run(t, v, n, func(t *testing.T, c *Client) {
		list := uids(900)
		inMoved := 0
		for i, f := range c.Lookup(t.Context(), list) {
			requireFound(t, list[i], f, i)
			if f.Target.Slot == 4 {
				require.Equal(t, moved, f.Target)
				inMoved++
			}
		}
		require.NotZero(t, inMoved)
		require.Len(t, one.requests(), 1)
		require.Equal(t, inMoved, two.requests()[1], "only what was stale is asked again")
		require.EqualValues(t, inMoved, c.Stats().Again)
		require.Equal(t, []string{"slot.4"}, v.reads)
	})
}

func TestThreeStates(t *testing.T) {
	n, v := newNATS(), newView(a1)
	one := serve(n, v, a1)
	online, offline := schema.UID("four"), schema.UID("six")
	for _, uid := range []schema.UID{online, offline} {
		require.Equal(t, uid == online, routesOf(uid) > 0)
	}
	run(t, v, n, func(t *testing.T, c *Client) {
		both := []schema.UID{online, offline}
		for _, uid := range both {
			one.rebuilding[subjects.SlotOf(uid)] = true
		}
		got := c.Lookup(t.Context(), both)
		require.Equal(t, schema.Online, got[0].State)
		require.True(t, got[0].Partial)
		require.Equal(t, schema.Unknown, got[1].State, "never offline while rebuilding")
		require.Equal(t, WhyRebuilding, got[1].Why)

		delete(v.slots, subjects.SlotOf(offline))
		got = c.Lookup(t.Context(), both)
		require.Equal(t, schema.Online, got[0].State, "one slot spoils no other")
		require.Equal(t, schema.Unknown, got[1].State)
		require.Equal(t, WhyUnowned, got[1].Why)

		one.mute = true
		require.Equal(t, 500*time.Millisecond, took(func() { got = c.Lookup(t.Context(), both) }))
		require.Equal(t, WhyUnreachable, got[0].Why)
		require.Equal(t, WhyUnowned, got[1].Why)
	})
}

func TestLookupRefusesLowerFences(t *testing.T) {
	n, v := newNATS(), newView(a1)
	serve(n, v, a1)
	uid := schema.UID("four")
	run(t, v, n, func(t *testing.T, c *Client) {
		v.Saw(subjects.SlotOf(uid), 11)
		f := c.Lookup(t.Context(), []schema.UID{uid})[0]
		require.Equal(t, schema.Unknown, f.State)
		require.Equal(t, WhyUnreachable, f.Why)
		require.Empty(t, f.Routes)
		require.Equal(t, 1, v.readsOf(subjects.SlotOf(uid)))
	})
}

func TestLookupOfADeadOwner(t *testing.T) {
	n, v := newNATS(), newView(a1)
	uid := schema.UID("four")
	slot := subjects.SlotOf(uid)
	run(t, v, n, func(t *testing.T, c *Client) {
		c.learn(v.slots[slot])
		time.Sleep(time.Second)
		look := func() Found { return c.Lookup(t.Context(), []schema.UID{uid})[0] }
		require.Zero(t, took(func() { require.Equal(t, WhyUnreachable, look().Why) }))
		require.Equal(t, 1, v.readsOf(slot))
		v.keys[subjects.SlotKey(slot)] = func() error {
			v.give(slot, 20, a2)
			serve(n, v, a2)
			return nil
		}
		require.Equal(t, WhyUnreachable, look().Why, "the key was read a moment ago")
		time.Sleep(rereadMin)
		require.Equal(t, a2, look().Target.Authority)
	})
}

// A look-up ends with its context, and has by then what the others have said, whichever is asked last.
func TestLookupEndsWithItsContext(t *testing.T) {
	for last, when := range []string{"one in time is asked last", "one that is late"} {
		t.Run(when, func(t *testing.T) {
			n, v := newNATS(), newView(a1, a2)
			serve(n, v, a1)
			serve(n, v, a2).delay = 200 * time.Millisecond
			run(t, v, n, func(t *testing.T, c *Client) {
				list := uids(300)
				first := indexOf(list, schema.Slot(1-last))
				list[0], list[first] = list[first], list[0]
				for range 10 { // chance has no part in it
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					var got []Found
					require.Equal(t, 50*time.Millisecond, took(func() { got = c.Lookup(ctx, list) }))
					cancel()
					for i, f := range got {
						if subjects.SlotOf(list[i])%2 == 0 {
							requireFound(t, list[i], f, i)
							continue
						}
						require.Equal(t, Found{UID: list[i], State: schema.Unknown, Why: WhyUnreachable}, f)
					}
					time.Sleep(time.Second) // the late answer changes nothing
					require.Equal(t, schema.Unknown, got[indexOf(list, 1)].State)
				}
			})
		})
	}
}

// indexOf gives a place whose slot leaves the rest when divided by two.
func indexOf(list []schema.UID, rest schema.Slot) int {
	for i, uid := range list {
		if subjects.SlotOf(uid)%2 == rest {
			return i
		}
	}
	panic("no such uid")
}

func TestLookupBeforeTheViewIsReady(t *testing.T) {
	v := newView(a1)
	synctest.Test(t, func(t *testing.T) {
		v.ready = make(chan struct{})
		c := newClient(newNATS(), v, Config{})
		require.Equal(t, tryShort, took(func() {
			require.Equal(t, WhyUnreachable, c.Lookup(t.Context(), []schema.UID{"u"})[0].Why)
		}))
	})
}

// Whatever the owners do, each uid gets its own answer or says why there is none.
func TestLookupAlignsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, v := newNATS(), newView(a1, a2, process("a3", "z"))
		list := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 60), func(i int) schema.UID {
			return schema.UID(fmt.Sprint("u", i))
		}), 0, 200).Draw(rt, "uids")
		dead := map[schema.Slot]bool{}
		for _, p := range []schema.Process{a1, a2} {
			a := serve(n, v, p)
			a.most = rapid.IntRange(0, 5).Draw(rt, "most")
			for s := range a.holds {
				if rapid.IntRange(0, 9).Draw(rt, "lost") == 0 {
					delete(a.holds, s)
					dead[s] = true
				}
			}
		}
		synctestRun(t, v, n, func(c *Client) {
			got := c.Lookup(context.Background(), list)
			require.Len(rt, got, len(list))
			for i, f := range got {
				owner := v.slots[subjects.SlotOf(list[i])].Authority
				if owner.Node == "a3" || dead[subjects.SlotOf(list[i])] {
					require.Equal(rt, Found{UID: list[i], State: schema.Unknown, Why: WhyUnreachable}, f)
					continue
				}
				requireFound(rt, list[i], f, i)
			}
		})
	})
}

func synctestRun(t *testing.T, v *fakeView, n *fakeNATS, test func(c *Client)) {
	run(t, v, n, func(_ *testing.T, c *Client) { test(c) })
}
