package lease

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	epoch = time.Unix(1_800_000_000, 0)
	bootA = schema.BootID("aaaaaaaaaaaaaaaaaaaaaa")
	bootB = schema.BootID("bbbbbbbbbbbbbbbbbbbbbb")
	bootC = schema.BootID("cccccccccccccccccccccc")
)

func jsonEntry(key string, rev schema.Revision, v any) entry {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return entry{key: key, rev: rev, data: data, at: epoch}
}

func authorityEntry(rev schema.Revision, b schema.BootID, s schema.ProcessState) entry {
	return jsonEntry("authority.a-1", rev, schema.ProcessValue{Boot: b, State: s})
}

func slotEntry(rev schema.Revision, b schema.BootID) entry {
	return jsonEntry("slot.7", rev, schema.SlotValue{Node: "a-1", Boot: b})
}

func tableOf(entries ...entry) *table {
	t := newTable(schema.DefaultConfig())
	for _, e := range entries {
		t.put(e, epoch, false)
	}
	return t
}

func TestOlderRevisionsAreIgnored(t *testing.T) {
	c := schema.DefaultConfig()
	c.Policy = "multi"
	x := tableOf(
		authorityEntry(20, bootB, schema.StateServing), authorityEntry(10, bootA, schema.StateServing),
		slotEntry(21, bootB), slotEntry(11, bootA),
		jsonEntry(subjects.ConfigKey, 22, c), jsonEntry(subjects.ConfigKey, 12, schema.DefaultConfig()),
	)
	require.Equal(t, bootB, x.members[Authority]["a-1"].value.Boot)
	require.Equal(t, bootB, x.target(7).Authority.Boot)
	require.Equal(t, "multi", x.config.Policy)
}

// A view may hear of a claim after it has heard that the claimer was replaced.
func TestOwnerReplacedBeforeItsClaimWasHeard(t *testing.T) {
	x := tableOf(authorityEntry(20, bootB, schema.StateServing), slotEntry(15, bootA))
	require.False(t, x.slots[7].owned, "boot A claimed at 15, boot B stands since 20 at the latest")
	x = tableOf(authorityEntry(20, bootB, schema.StateServing), slotEntry(25, bootC))
	require.True(t, x.slots[7].owned, "boot C took its key after 20: that was not heard yet")
	x.put(authorityEntry(24, bootC, schema.StateServing), epoch, false)
	require.True(t, x.slots[7].owned)
	x = tableOf(slotEntry(15, bootA), entry{key: "authority.a-1", rev: 20, marker: true})
	require.False(t, x.slots[7].owned)
	x = tableOf(slotEntry(15, bootA), authorityEntry(14, bootA, schema.StateServing), authorityEntry(20, bootA, schema.StateDead))
	require.False(t, x.slots[7].owned)
}

func TestChangesAreTold(t *testing.T) {
	x := newTable(schema.DefaultConfig())
	say := func(e entry) (out []string) {
		for _, c := range x.put(e, epoch, false) {
			switch {
			case c.Slot != nil:
				out = append(out, fmt.Sprintf("slot %d@%d owned %v", c.Slot.Target.Slot, c.Slot.Target.Fence, c.Slot.Owned))
			case c.Process != nil:
				out = append(out, fmt.Sprintf("%c %s", c.Process.Process.Boot[0], c.Process.Standing))
			}
		}
		return out
	}
	require.Equal(t, []string{"a living"}, say(authorityEntry(1, bootA, schema.StateServing)))
	require.Equal(t, []string{"slot 7@2 owned true"}, say(slotEntry(2, bootA)))
	require.Empty(t, say(authorityEntry(3, bootA, schema.StateServing)), "a renewal")
	require.Equal(t, []string{"a living"}, say(authorityEntry(4, bootA, schema.StateLeaving)))
	require.Equal(t, []string{"a gone", "slot 7@2 owned false", "b living"}, say(authorityEntry(5, bootB, schema.StateServing)))
	require.Equal(t, []string{"slot 7@6 owned true"}, say(slotEntry(6, bootB)))
	require.Equal(t, []string{"b gone", "slot 7@6 owned false"}, say(authorityEntry(7, bootB, schema.StateDead)))
	require.Empty(t, say(authorityEntry(7, bootB, schema.StateDead)))
}

func TestAbsentOwnerIsGoneAfterALease(t *testing.T) {
	x := tableOf(slotEntry(15, bootA))
	require.True(t, x.slots[7].owned, "its key may not have been heard yet")
	quiet := func(d time.Duration) func(time.Time) time.Duration { return func(time.Time) time.Duration { return d } }
	require.Empty(t, x.expire(quiet(30*time.Second-1)))
	require.NotEmpty(t, x.expire(quiet(30*time.Second)))
	require.False(t, x.slots[7].owned)
	require.Empty(t, x.expire(quiet(time.Hour)), "told once")
}

func TestBootsRememberedAreBounded(t *testing.T) {
	x := newTable(schema.DefaultConfig())
	for i := range 10 * maxGone {
		x.put(authorityEntry(schema.Revision(i+1), schema.NewBoot(), schema.StateServing), epoch, false)
	}
	require.Len(t, x.members[Authority]["a-1"].gone, maxGone)
}

func TestListingDecidesWhatIsNotNewer(t *testing.T) {
	x := tableOf(authorityEntry(10, bootA, schema.StateServing), slotEntry(11, bootA))
	x.install(listing{entries: []entry{authorityEntry(10, bootA, schema.StateServing), slotEntry(11, bootA)}, at: 11, created: epoch}, epoch)

	// Notices up to 13 overtook a listing as of 12, which does not know the slot's new owner.
	x.put(slotEntry(13, bootB), epoch, false)
	x.install(listing{entries: []entry{slotEntry(11, bootA), authorityEntry(12, bootA, schema.StateServing)}, at: 12, created: epoch}, epoch)
	require.Equal(t, schema.Revision(13), x.slots[7].rev)

	// A server lost 13 and went on from 12: the listing as of 20 shows the slot at 11 again.
	x.install(listing{entries: []entry{slotEntry(11, bootA), authorityEntry(20, bootA, schema.StateServing)}, at: 20, created: epoch}, epoch)
	require.Equal(t, schema.Revision(11), x.slots[7].rev)
	require.True(t, x.slots[7].owned)
	require.Equal(t, schema.Revision(13), x.highest[7], "it never falls")

	// Another stream under the same name.
	_, again, fell := x.install(listing{at: 3, after: 20, created: epoch.Add(time.Hour)}, epoch)
	require.True(t, again)
	require.False(t, fell, "it is another log")
	require.False(t, x.slots[7].owned)
	require.Equal(t, absent, x.members[Authority]["a-1"].state)
	require.Equal(t, schema.Revision(3), x.seen.head)
	x.put(slotEntry(4, bootB), epoch, false)
	x.put(authorityEntry(5, bootB, schema.StateServing), epoch, false)
	require.Equal(t, schema.Revision(4), x.slots[7].rev, "it counts from below")
	require.True(t, x.slots[7].owned)
}

// What is written while a consumer lists is in its listing twice. The earlier value is older than what a
// notice told meanwhile, and must not bring the boot before back: the one after would be gone for ever.
func TestListingNamesAKeyTwice(t *testing.T) {
	x := tableOf(authorityEntry(10, bootA, schema.StateServing), slotEntry(11, bootA))
	x.put(authorityEntry(12, bootB, schema.StateServing), epoch, false)
	x.put(slotEntry(13, bootB), epoch, false)
	changes, _, _ := x.install(listing{at: 14, created: epoch, entries: []entry{
		authorityEntry(10, bootA, schema.StateServing), slotEntry(11, bootA),
		authorityEntry(12, bootB, schema.StateServing), slotEntry(13, bootB),
		jsonEntry("gateway.gw-1", 14, schema.ProcessValue{Boot: bootC, State: schema.StateServing}),
	}}, epoch)
	require.Equal(t, Living, x.members[Authority]["a-1"].standing(bootB))
	require.Equal(t, Gone, x.members[Authority]["a-1"].standing(bootA))
	require.True(t, x.slots[7].owned)
	require.Len(t, changes, 1, "of the gateway")
}

// What was heard in the tail that a log has lost is not in the bucket: whatever comes next of these keys is
// news, however low it stands, or nobody could end who dies there.
func TestAnyNewsCountsAfterALostTail(t *testing.T) {
	fallen := func() *table {
		x := tableOf(authorityEntry(100, bootB, schema.StateServing), slotEntry(101, bootB), jsonEntry("slot.8", 60+MostAhead, schema.SlotValue{Node: "a-2", Boot: bootB}))
		x.seen = progress{head: 60 + MostAhead}
		_, _, fell := x.install(listing{at: 50, after: 60 + MostAhead, created: epoch, entries: []entry{authorityEntry(12, bootA, schema.StateServing)}}, epoch)
		require.True(t, fell)
		require.False(t, x.members[Authority]["a-1"].lost, "one that was asked may have been behind")
		require.True(t, x.seen.notice(51), "it was not: 51 is given out again")
		x.lose(50)
		require.Equal(t, Living, x.members[Authority]["a-1"].standing(bootB), "as a hint")
		return x
	}
	x := fallen()
	x.put(authorityEntry(51, bootC, schema.StateServing), epoch, false)
	require.EqualValues(t, 51, x.members[Authority]["a-1"].rev, "where its lease can be ended")
	require.Equal(t, Gone, x.members[Authority]["a-1"].standing(bootB))
	x.put(authorityEntry(50, bootA, schema.StateServing), epoch, false)
	require.EqualValues(t, 51, x.members[Authority]["a-1"].rev, "older than that is old news again")

	x = fallen()
	x.put(slotEntry(52, bootC), epoch, false)
	require.EqualValues(t, 52, x.slots[7].rev)
	require.True(t, x.slots[7].owned, "boot C has taken its key before, unheard: what is held of it is no later one")
	require.EqualValues(t, 101, x.highest[7])

	x = fallen()
	x.install(listing{at: 53, after: 50, created: epoch, entries: []entry{authorityEntry(12, bootA, schema.StateServing)}}, epoch)
	require.EqualValues(t, 12, x.members[Authority]["a-1"].rev)
	require.Equal(t, Gone, x.members[Authority]["a-1"].standing(bootB))
	require.Equal(t, absent, x.slots[7].state)
	require.Equal(t, absent, x.slots[8].state, "however far ahead it was")
}

// A log that has lost its tail gives the revisions of it out again. A slot that had another owner at one
// has none at it, whoever of the two comes back.
func TestAFenceHasOneOwner(t *testing.T) {
	x := tableOf(slotEntry(101, bootA))
	require.EqualValues(t, 101, x.highest[7])
	x.put(slotEntry(101, bootA), epoch, true)
	require.EqualValues(t, 101, x.highest[7], "told twice")
	x.lose(100)
	x.put(slotEntry(101, bootB), epoch, false)
	require.EqualValues(t, 102, x.highest[7])
	x.put(slotEntry(101, bootA), epoch, true)
	require.EqualValues(t, 102, x.highest[7])
	x.put(slotEntry(102, bootB), epoch, false)
	require.EqualValues(t, 102, x.highest[7], "nobody had that one")
	x.put(slotEntry(102, bootC), epoch, true)
	require.EqualValues(t, 103, x.highest[7])

	x = tableOf()
	x.saw(7, 101)
	x.put(slotEntry(101, bootA), epoch, false)
	require.EqualValues(t, 101, x.highest[7], "a message told of it before the key did")
	x.put(slotEntry(101, bootB), epoch, true)
	require.EqualValues(t, 102, x.highest[7])
}

// Names that do not come back are forgotten, those of slots' owners only with the slots.
func TestAbsentMembersAreForgotten(t *testing.T) {
	quiet := func(d time.Duration) func(time.Time) time.Duration { return func(time.Time) time.Duration { return d } }
	span := schema.DefaultConfig().Lease()
	gateway := jsonEntry("gateway.gw-1", 12, schema.ProcessValue{Boot: bootC, State: schema.StateDead})
	x := tableOf(authorityEntry(10, bootA, schema.StateServing), slotEntry(11, bootA), gateway)
	x.install(listing{entries: []entry{slotEntry(11, bootA)}, at: 13, created: epoch}, epoch)
	require.NotEmpty(t, x.expire(quiet(span)))
	require.Equal(t, Gone, x.members[Gateway]["gw-1"].standing(bootC))
	require.Empty(t, x.expire(quiet(2*span-1)))
	require.Len(t, x.members[Gateway], 1)
	require.Empty(t, x.expire(quiet(2*span)))
	require.Empty(t, x.members[Gateway])
	require.Zero(t, x.held("gateway.gw-1"))

	require.Empty(t, x.expire(quiet(100*span)))
	require.Equal(t, Gone, x.members[Authority]["a-1"].standing(bootA))
	require.False(t, x.slots[7].owned, "who owned the slot stays known to be gone")
	x.put(jsonEntry("slot.7", 14, schema.SlotValue{Node: "a-2", Boot: bootB}), epoch, false)
	x.put(jsonEntry("authority.a-2", 15, schema.ProcessValue{Boot: bootB, State: schema.StateServing}), epoch, false)
	require.Empty(t, x.expire(quiet(2*span)))
	require.Len(t, x.members[Authority], 1)
	require.True(t, x.slots[7].owned)

	// A node that was forgotten is as good as a new one, and no slot is owned by its boot of before.
	x.put(slotEntry(16, bootA), epoch, true)
	require.True(t, x.slots[7].owned, "its key may not have been heard yet")
	x.put(authorityEntry(17, bootC, schema.StateServing), epoch, false)
	require.False(t, x.slots[7].owned)
	require.Equal(t, Living, x.members[Authority]["a-1"].standing(bootC))
}

// Whatever order notices, reads and listings come in, a view that has got all of them holds what
// the bucket holds.
func TestAnyOrderEndsAtTheBucketsState(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		history, final := drawHistory(r)
		x := newTable(schema.DefaultConfig())
		for _, e := range rapid.Permutation(history).Draw(r, "order") {
			x.put(e, epoch, false)
		}
		y := newTable(schema.DefaultConfig())
		for _, e := range history[:rapid.IntRange(0, len(history)).Draw(r, "heard")] {
			y.put(e, epoch, false)
		}
		y.install(listing{entries: final, at: history[len(history)-1].rev, created: epoch}, epoch)
		for _, e := range final {
			require.Equal(r, e.rev, x.held(e.key), e.key)
			require.Equal(r, e.rev, y.held(e.key), e.key)
		}
		require.Equal(r, x.slots[7], y.slots[7])
		require.Equal(r, slotOfFinal(final) == nowBoot(history), x.slots[7].owned)
	})
}

func slotOfFinal(final []entry) schema.BootID {
	for _, e := range final {
		if p, ok := slotOwner(e); ok && e.key == "slot.7" {
			return p.Boot
		}
	}
	return "nobody"
}

func nowBoot(history []entry) (b schema.BootID) {
	for _, e := range history {
		if v, ok := decodeProcess(e); ok && e.key == "authority.a-1" {
			b = v.Boot
		}
	}
	return b
}

// drawHistory draws what a bucket took: processes take their keys before they claim, and claim
// only while their key names them. final is what each key holds at the end.
func drawHistory(r *rapid.T) (history, final []entry) {
	rev, boots := schema.Revision(0), []schema.BootID{bootA}
	add := func(e entry) { history = append(history, e) }
	rev++
	add(authorityEntry(rev, bootA, schema.StateServing))
	for range rapid.IntRange(1, 12).Draw(r, "writes") {
		rev++
		now := boots[len(boots)-1]
		switch rapid.IntRange(0, 2).Draw(r, "write") {
		case 0:
			add(authorityEntry(rev, now, schema.StateServing))
		case 1:
			add(slotEntry(rev, now))
		case 2:
			boots = append(boots, schema.BootID(fmt.Sprintf("%022d", rev)))
			add(authorityEntry(rev, boots[len(boots)-1], schema.StateServing))
		}
	}
	last := map[string]entry{}
	for _, e := range history {
		last[e.key] = e
	}
	for _, e := range history {
		if last[e.key].rev == e.rev {
			final = append(final, e)
		}
	}
	return history, final
}

// A bucket is young for a lease after its config, the first key, was written; not after that was changed.
func TestYoung(t *testing.T) {
	config := func(rev schema.Revision, at time.Time) entry {
		e := jsonEntry(subjects.ConfigKey, rev, schema.DefaultConfig())
		e.at = at
		return e
	}
	later := epoch.Add(schema.DefaultConfig().Lease())
	x := tableOf(config(10, epoch), slotEntry(11, bootA))
	require.True(t, x.young())
	x.newest = later
	require.False(t, x.young(), "a lease old")
	x.put(config(12, later), later, false)
	require.False(t, x.young(), "its config was changed")
	x.dropSlot(7, 0)
	require.True(t, x.young(), "it was emptied, and the config written first")
}

// A server that has lost the tail of its log hands out old revisions again: a key that is renewed at
// these is old news, but not silent. One that is read again and again where it stands is.
func TestRenewalsBelowWhatWasHeardAreSignsOfLife(t *testing.T) {
	x := tableOf(authorityEntry(20, bootA, schema.StateServing))
	m := x.members[Authority]["a-1"]
	at := epoch
	for rev := schema.Revision(10); rev < 15; rev++ {
		at = at.Add(time.Second)
		x.put(authorityEntry(rev, bootA, schema.StateServing), at, false)
		require.Equal(t, at, m.changed)
		require.EqualValues(t, 20, m.rev, "what decides writes stays")
	}
	x.put(authorityEntry(14, bootA, schema.StateServing), at.Add(time.Second), false)
	require.Equal(t, at, m.changed)
}

// What a gateway's key said in the tail that a log has lost is forgotten with it; until then its value is
// held, as old as it is.
func TestSinceIsForgottenWithTheTail(t *testing.T) {
	gateway := func(rev, since schema.Revision) entry {
		return jsonEntry("gateway.gw-1", rev, schema.ProcessValue{Boot: bootC, State: schema.StateServing, Since: since})
	}
	heard := func() *table {
		x := tableOf(gateway(20, 19))
		x.seen = progress{head: 20, from: 20, to: 20}
		require.EqualValues(t, 19, x.members[Gateway]["gw-1"].value.Since)
		return x
	}
	x := heard()
	_, _, fell := x.install(listing{entries: []entry{gateway(8, 0)}, at: 9, after: 20, created: epoch}, epoch)
	require.True(t, fell)
	require.Zero(t, x.members[Gateway]["gw-1"].value.Since)
	x.put(gateway(21, 18), epoch, false)
	require.EqualValues(t, 18, x.members[Gateway]["gw-1"].value.Since)

	x = heard()
	x.install(listing{entries: []entry{gateway(22, 19)}, at: 22, after: 20, created: epoch}, epoch)
	require.EqualValues(t, 19, x.members[Gateway]["gw-1"].value.Since)
}

// A log that has lost its tail shows who stood under a name before: not a successor, as no boot returns.
func TestAPredecessorThatReturnsEndsNobody(t *testing.T) {
	boots := func(x *table) map[schema.BootID]Standing {
		m := x.members[Authority]["a-1"]
		return map[schema.BootID]Standing{bootA: m.standing(bootA), bootB: m.standing(bootB), bootC: m.standing(bootC)}
	}
	x := tableOf(authorityEntry(3, bootA, schema.StateServing), authorityEntry(9, bootB, schema.StateServing))
	require.Equal(t, map[schema.BootID]Standing{bootA: Gone, bootB: Living, bootC: Unseen}, boots(x))
	require.Empty(t, x.put(authorityEntry(3, bootA, schema.StateServing), epoch, true))
	require.Equal(t, map[schema.BootID]Standing{bootA: Gone, bootB: Living, bootC: Unseen}, boots(x))
	x.put(authorityEntry(4, bootC, schema.StateServing), epoch, false)
	require.Equal(t, map[schema.BootID]Standing{bootA: Gone, bootB: Gone, bootC: Living}, boots(x))
}
