package directory

import (
	"slices"
	"time"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
)

func (r *run) all(uid schema.UID) []schema.Route { return r.d.Lookup(r.at(), uid, nil) }

// check is what must hold after every step.
func (r *run) check() {
	for _, uid := range runUIDs {
		got := r.all(uid)
		for i := range got {
			got[i].Listener = ""
			for j := range i {
				by, _ := r.d.settings.Policy.pair(&got[i], &got[j])
				require.Equal(r.T, stay, by, "two committed routes conflict: %+v %+v", got[i], got[j])
			}
			require.False(r.T, r.ended[identity{uid, got[i].Owner, got[i].Session}], "back after an acknowledged unregister: %+v", got[i])
		}
		require.ElementsMatch(r.T, r.m.lookup(uid, r.now), got)
	}
	r.checkRecords()
	if !r.rebuild {
		require.Equal(r.T, r.tellable(), r.told, "what events have told")
	}
}

// tellable is what events must have told: routes that have lapsed and were not yet freed among
// them, and the last one of each user whose offline is held back.
func (r *run) tellable() map[schema.UID]map[schema.SessionID]bool {
	all := map[schema.UID]map[schema.SessionID]bool{}
	put := func(uid schema.UID, s schema.SessionID) {
		if all[uid] == nil {
			all[uid] = map[schema.SessionID]bool{}
		}
		all[uid][s] = true
	}
	for i := uint32(1); i <= r.d.slab.size; i++ {
		if x := r.d.slab.at(i); x.state == committed {
			put(x.uid(), x.session.Outside(r.d.owners[x.owner].process.Boot))
		}
	}
	for uid, a := range r.d.grace.held {
		require.NotContains(r.T, all, uid, "held back, and there")
		put(uid, a.last.route.Session)
	}
	return all
}

// watch does what a watcher does with events, and checks that each says what it should.
func (r *run) watch(events []schema.Event) {
	if r.rebuild {
		require.Empty(r.T, events)
		return
	}
	for n, e := range events {
		require.Equal(r.T, schema.Stamp{Fence: 7, K: r.stamp.K + 1}, e.Stamp)
		r.stamp = e.Stamp
		require.Equal(r.T, e.Type == schema.EventOffline, e.Left == 0, "only an offline says that nothing is left")
		have := r.told[e.UID]
		replaced := slices.ContainsFunc(events[n:], func(x schema.Event) bool {
			return x.UID == e.UID && x.Type == schema.EventAdded
		})
		switch e.Type {
		case schema.EventOnline, schema.EventAdded:
			require.NotContains(r.T, have, e.Route.Session)
			if e.Type == schema.EventOnline {
				require.Empty(r.T, have)
			}
			if have == nil {
				have = map[schema.SessionID]bool{}
				r.told[e.UID] = have
			}
			have[e.Route.Session] = true
		case schema.EventOffline, schema.EventRemoved:
			require.Contains(r.T, have, e.Route.Session)
			delete(have, e.Route.Session)
			if e.Type == schema.EventOffline {
				require.Empty(r.T, have)
			}
		}
		if len(have) == 0 {
			require.True(r.T, e.Type == schema.EventOffline || replaced, "the last went without an offline")
			delete(r.told, e.UID)
		}
	}
	require.Equal(r.T, r.stamp, r.d.Stamp())
}

// checkRecords walks over all that the directory holds: every ring, list, index and count says the
// same as the records.
func (r *run) checkRecords() {
	d := r.d
	records, routes, waiting, online := 0, 0, 0, map[schema.UID]bool{}
	inRings := map[uint32]int{}
	for o := range d.owners {
		d.walk(d.owners[o].stand, byOwner, func(i uint32) { inRings[i]++ })
		n := 0
		d.walk(d.owners[o].out, byOwner, func(i uint32) { inRings[i]++; n++ })
		require.Equal(r.T, n, d.owners[o].outs)
	}
	for _, ring := range d.wheel.rings {
		d.walk(ring, byTime, func(i uint32) { inRings[i] += 10 })
	}
	for i := uint32(1); i <= d.slab.size; i++ {
		x := d.slab.at(i)
		if x.state == vacant {
			require.Zero(r.T, inRings[i])
			continue
		}
		records++
		want := 1
		if x.state.timed() {
			want += 10
		}
		require.Equal(r.T, want, inRings[i])
		require.Equal(r.T, i, d.find(x.owner, x.session, x.uid()))
		if x.state == committed {
			online[x.uid()] = true
			if !d.owners[x.owner].gone {
				routes++
			}
		}
		if x.state == pending {
			waiting++
			require.Contains(r.T, d.pendings, i)
		}
	}
	require.Equal(r.T, records, d.sessions.used)
	require.Equal(r.T, routes, d.Routes())
	require.Equal(r.T, waiting, len(d.pendings))
	require.Equal(r.T, len(online), d.Users())
	for i := range d.named {
		require.Equal(r.T, committed, d.slab.at(i).state)
	}
	r.checkLists(records)
}

func (r *run) checkLists(records int) {
	d := r.d
	users := 0
	for _, p := range d.users.places {
		if p.record == 0 {
			continue
		}
		users++
		out := false
		for i := p.record; i != 0; i = d.slab.at(i).next {
			records--
			require.False(r.T, out && !d.slab.at(i).state.out(), "a standing record behind one that is out")
			out = d.slab.at(i).state.out()
			require.Equal(r.T, d.slab.at(p.record).uid(), d.slab.at(i).uid())
		}
	}
	require.Zero(r.T, records, "records in no list of a uid")
	require.Equal(r.T, users, d.users.used)
}

func (d *Directory) walk(r ring, which int, f func(uint32)) {
	for i := uint32(r); i != 0; {
		f(i)
		if i = d.slab.at(i).links[which].next; i == uint32(r) {
			return
		}
	}
}

// finish lets everything end: nothing must be left.
func (r *run) finish() {
	if r.rebuild {
		r.rebuilding()
	}
	for _, p := range r.m.living() {
		r.watch(r.d.Gone(r.at(), p))
	}
	r.now += time.Hour
	r.expire()
	r.now += r.d.ttl
	r.expire()
	d := r.d
	require.Zero(r.T, d.sessions.used)
	require.Zero(r.T, d.users.used)
	require.Zero(r.T, d.Users())
	require.Empty(r.T, d.processes)
	require.Empty(r.T, d.pendings)
	require.Empty(r.T, d.named)
	require.Empty(r.T, d.classes.named)
	require.Empty(r.T, d.lost)
	require.Empty(r.T, d.buried)
	require.Empty(r.T, d.damper.fights)
	require.Empty(r.T, d.grace.held)
	require.Empty(r.T, d.grace.line)
	require.Empty(r.T, r.told)
}
