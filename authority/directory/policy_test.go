package directory

import (
	"fmt"
	"testing"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/stretchr/testify/require"
)

// cells is the table of the README and of its presets, written down a second time: what a
// login of each level does to the same device, another device of the flag, another flag.
var cells = map[string]map[schema.Level][3]string{
	"levels":                  {schema.Master: {"replace", "kick", "-"}, schema.Slave: {"replace", "-", "-"}},
	"single":                  {schema.Master: {"replace", "kick", "kick"}, schema.Slave: {"replace", "kick", "kick"}},
	"one_per_flag":            {schema.Master: {"replace", "kick", "-"}, schema.Slave: {"replace", "kick", "-"}},
	"multi":                   {schema.Master: {"replace", "-", "-"}, schema.Slave: {"replace", "-", "-"}},
	"levels_reject_new":       {schema.Master: {"replace", "reject", "-"}, schema.Slave: {"replace", "-", "-"}},
	"single_reject_new":       {schema.Master: {"replace", "reject", "reject"}, schema.Slave: {"replace", "reject", "reject"}},
	"one_per_flag_reject_new": {schema.Master: {"replace", "reject", "-"}, schema.Slave: {"replace", "reject", "-"}},
	"multi_reject_new":        {schema.Master: {"replace", "-", "-"}, schema.Slave: {"replace", "-", "-"}},
}

// incoming is the login of all table tests, and related an existing route for each column.
var related = [3]schema.Route{
	{Device: "phone", Flag: "app"},
	{Device: "tablet", Flag: "app"},
	{Device: "phone", Flag: "web"},
}

func policy(t testing.TB, name string) Policy {
	t.Helper()
	p, err := ParsePolicy(name)
	require.NoError(t, err)
	require.Equal(t, name, p.String())
	return p
}

func decided(v Verdict, out []Removal) string {
	switch {
	case v == RefusedPolicy:
		return "reject"
	case v != Admit:
		return v.String()
	case len(out) == 0:
		return "-"
	case out[0].Close == schema.CloseReplaced:
		return "replace"
	case out[0].Close == schema.CloseKicked:
		return "kick"
	}
	return fmt.Sprint(out)
}

func TestEveryCellOfEveryPolicy(t *testing.T) {
	require.Len(t, cells, 2*len(policies))
	for name, want := range cells {
		p := policy(t, name)
		for level, row := range want {
			in := Candidate{Route: schema.Route{Device: "phone", Flag: "app", Level: level}}
			for column := range row {
				for _, of := range []schema.Level{schema.Slave, schema.Master} { // the old one's level decides nothing
					old := related[column]
					old.Level = of
					got := decided(p.Decide([]schema.Route{old}, in))
					require.Equal(t, row[column], got, "%s, %s, column %d", name, level, column)
				}
			}
		}
	}
}

func TestLowerGenerationIsRefusedWhereItConflicts(t *testing.T) {
	for name, want := range cells {
		p := policy(t, name)
		for level, row := range want {
			in := Candidate{Route: schema.Route{Device: "phone", Flag: "app", Level: level, Gen: 4}}
			for column := range row {
				old := related[column]
				old.Gen = 5
				v, out := p.Decide([]schema.Route{old}, in)
				if row[column] == "-" {
					require.Equal(t, Admit, v, "%s, %s, column %d", name, level, column)
				} else {
					require.Equal(t, RefusedOlder, v, "%s, %s, column %d", name, level, column)
				}
				require.Empty(t, out)
			}
		}
	}
}

// A slave of an older login beside a master of a newer one would be kicked at the next sync, so
// it is not let in.
func TestLowerGenerationIsRefusedWhereTheOtherWayConflicts(t *testing.T) {
	p := policy(t, "levels")
	old := schema.Route{Device: "tablet", Flag: "app", Level: schema.Master, Gen: 5}
	v, _ := p.Decide([]schema.Route{old}, Candidate{Route: schema.Route{Device: "phone", Flag: "app", Gen: 4}})
	require.Equal(t, RefusedOlder, v)
}

func TestEmptyDeviceIsAlwaysAnother(t *testing.T) {
	old := schema.Route{Flag: "app", Owner: schema.Process{Node: "g", Boot: "b"}, Session: 3}
	in := Candidate{Route: schema.Route{Flag: "app", Level: schema.Master}}
	require.Equal(t, "kick", decided(policy(t, "levels").Decide([]schema.Route{old}, in)))
	require.Equal(t, "-", decided(policy(t, "multi").Decide([]schema.Route{old}, in)))
	in.ResumeBoot, in.ResumeSession = "b", 3
	require.Equal(t, "replace", decided(policy(t, "levels").Decide([]schema.Route{old}, in)))
	require.Equal(t, "replace", decided(policy(t, "multi").Decide([]schema.Route{old}, in)))
	in.ResumeSession = 4
	require.Equal(t, "-", decided(policy(t, "multi").Decide([]schema.Route{old}, in)))
}

func TestResumeIsTheSameDeviceUnderAnotherFlag(t *testing.T) {
	old := schema.Route{Device: "phone", Flag: "web", Owner: schema.Process{Node: "g", Boot: "b"}, Session: 3}
	in := Candidate{Route: schema.Route{Device: "phone", Flag: "app"}, ResumeBoot: "b", ResumeSession: 3}
	for name := range cells {
		require.Equal(t, "replace", decided(policy(t, name).Decide([]schema.Route{old}, in)), name)
	}
}

func TestMostSessions(t *testing.T) {
	for name := range cells {
		p := policy(t, name)
		existing := []schema.Route{
			{Device: "phone", Flag: "app"}, {Device: "phone", Flag: "web"},
		}
		in := Candidate{Route: schema.Route{Device: "phone", Flag: "app"}, MaxSessions: 2}
		v, out := p.Decide(existing, in)
		if name == "single_reject_new" {
			require.Equal(t, RefusedPolicy, v)
			continue
		}
		require.Equal(t, Admit, v, "%s: it removes one", name)
		require.NotEmpty(t, out)
		in.Route.Device, in.Route.Flag = "watch", "watch"
		v, out = p.Decide(existing, in)
		if name == "single" {
			require.Len(t, out, 2)
			continue
		}
		require.Equal(t, RefusedMany, v, name)
		require.Empty(t, out)
		in.MaxSessions = 3
		v, _ = p.Decide(existing, in)
		require.Equal(t, Admit, v, name)
	}
}

// pairCase judges two synced routes; want is the loser ("a", "b" or "") and why.
func TestPairs(t *testing.T) {
	phone := schema.Route{Owner: schema.Process{Boot: "b1"}, Session: 1, Device: "phone", Flag: "app", Level: schema.Master, Order: schema.Order{Fence: 5, N: 1}}
	with := func(f func(r *schema.Route)) schema.Route { r := phone; f(&r); return r }
	later := func(r *schema.Route) { r.Session, r.Order.N = 2, 2 }
	for _, c := range []struct {
		name, policy string
		a, b         schema.Route
		want         string
	}{
		{"the later order stands", "levels", phone, with(later), "a by replace"},
		{"a later fence outranks", "levels", with(func(r *schema.Route) { r.Session = 2; r.Order = schema.Order{Fence: 4, N: 9} }), phone, "a by replace"},
		{"a higher generation outranks", "levels", with(func(r *schema.Route) { r.Gen = 1 }), with(later), "b by replace"},
		{"a later master kicks", "levels", phone, with(func(r *schema.Route) { later(r); r.Device = "tablet" }), "a by kick"},
		{"a later slave does not", "levels", phone, with(func(r *schema.Route) { later(r); r.Device, r.Level = "tablet", schema.Slave }), ""},
		{"a later master kicks a slave", "levels", with(func(r *schema.Route) { r.Level = schema.Slave }), with(func(r *schema.Route) { later(r); r.Device = "tablet" }), "a by kick"},
		{"flags live side by side", "levels", phone, with(func(r *schema.Route) { later(r); r.Flag = "web" }), ""},
		{"the first stands under reject_new", "single_reject_new", phone, with(func(r *schema.Route) { later(r); r.Flag = "web" }), "b by reject"},
		{"equal ranks: the larger boot", "levels", phone, with(func(r *schema.Route) { r.Owner.Boot = "b2" }), "a by replace"},
		{"equal ranks: the larger session", "levels", with(func(r *schema.Route) { r.Session = 9 }), phone, "b by replace"},
		{"equal ranks: the larger under reject_new", "single_reject_new", with(func(r *schema.Route) { r.Session = 9 }), with(func(r *schema.Route) { r.Device = "tablet" }), "b by reject"},
		{"empty devices", "levels", with(func(r *schema.Route) { r.Device = "" }), with(func(r *schema.Route) { later(r); r.Device = "" }), "a by kick"},
		{"empty devices under multi", "multi", with(func(r *schema.Route) { r.Device = "" }), with(func(r *schema.Route) { later(r); r.Device = "" }), ""},
	} {
		p := policy(t, c.policy)
		require.Equal(t, c.want, judged(p, &c.a, &c.b, "a", "b"), c.name)
		require.Equal(t, c.want, judged(p, &c.b, &c.a, "b", "a"), "%s, the other way round", c.name)
	}
}

func judged(p Policy, a, b *schema.Route, nameA, nameB string) string {
	c, aLoses := p.pair(a, b)
	switch {
	case c == stay:
		return ""
	case aLoses:
		return nameA + " by " + c.String()
	}
	return nameB + " by " + c.String()
}

func TestParsePolicyNamesTheOthers(t *testing.T) {
	for _, bad := range []string{"", "Levels", "_reject_new", "levels_reject_new_reject_new"} {
		_, err := ParsePolicy(bad)
		require.ErrorContains(t, err, "levels, multi, one_per_flag, single", bad)
	}
}
