package delivery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rollcall-mesh/rollcall/authority/client"
	"github.com/rollcall-mesh/rollcall/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func gateway(n int) schema.Process {
	return schema.Process{Node: schema.NodeID(fmt.Sprint("gw-", n)), Boot: schema.BootID(strings.Repeat(string(rune('a'+n)), 22))}
}

func route(uid schema.UID, gw, session int, device schema.DeviceID, flag schema.Flag) schema.Route {
	return schema.Route{UID: uid, Owner: gateway(gw), Session: schema.SessionNum(session), Seq: schema.OwnerSeq(100 + session),
		Device: device, Flag: flag, Listener: "ws"}
}

func online(uid schema.UID, routes ...schema.Route) Found {
	return Found{UID: uid, State: schema.Online, Routes: routes, Target: schema.Target{Slot: schema.Slot(len(uid)), Fence: 9}}
}

// people: alice on two gateways with three devices, bob on one, carol offline, dave unknown.
func people() []Found {
	return []Found{
		online("alice", route("alice", 1, 1, "phone", "app"), route("alice", 2, 1, "tab", "app"), route("alice", 1, 2, "", "web")),
		online("bob", route("bob", 1, 3, "phone", "app")),
		{UID: "carol", State: schema.Offline},
		{UID: "dave", State: schema.Unknown, Why: "rebuilding"},
	}
}

// sessions tells a plan's routes as "uid@gateway.session", user by user.
func sessions(users []PushedUser) []string {
	list := make([]string, len(users))
	for i, u := range users {
		var names []string
		for _, r := range u.Routes {
			names = append(names, fmt.Sprintf("%s@%s.%d", r.Route.UID, r.Route.Owner.Node, r.Route.Session))
		}
		list[i] = strings.Join(names, " ")
	}
	return list
}

func TestPlanPicks(t *testing.T) {
	for name, tc := range map[string]struct {
		filter filter
		want   []string
	}{
		"all":                {filter{}, []string{"alice@gw-1.1 alice@gw-2.1 alice@gw-1.2", "bob@gw-1.3", "", ""}},
		"a device":           {filter{device: "phone"}, []string{"alice@gw-1.1", "bob@gw-1.3", "", ""}},
		"a flag":             {filter{flag: "web"}, []string{"alice@gw-1.2", "", "", ""}},
		"device and flag":    {filter{device: "phone", flag: "web"}, []string{"", "", "", ""}},
		"not the sender":     {filter{skip: skip{"alice", gateway(1), 1}}, []string{"alice@gw-2.1 alice@gw-1.2", "bob@gw-1.3", "", ""}},
		"skip of another":    {filter{skip: skip{"bob", gateway(1), 1}}, []string{"alice@gw-1.1 alice@gw-2.1 alice@gw-1.2", "bob@gw-1.3", "", ""}},
		"skip, another boot": {filter{skip: skip{"bob", gateway(2), 3}}, []string{"alice@gw-1.1 alice@gw-2.1 alice@gw-1.2", "bob@gw-1.3", "", ""}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, sessions(newPlan(people(), nil, tc.filter).users)) })
	}
}

func TestPlanSendsOnceToWhoIsNamedTwice(t *testing.T) {
	found := append(people(), people()...)
	p := newPlan(found, nil, filter{})
	require.Len(t, p.routes, 4)
	p.settle(p.all(), []schema.PushResult{schema.PushWritten, schema.PushNoSession, schema.PushPending, schema.PushOwnerGone})
	p.finish()
	require.Equal(t, sessions(p.users[:4]), sessions(p.users[4:]), "both places tell the same")
	for i := range 4 {
		require.Equal(t, p.users[i].Reached, p.users[i+4].Reached)
		require.Equal(t, p.users[i].Routes, p.users[i+4].Routes)
	}
	require.True(t, p.users[4].Reached)
	require.False(t, p.users[5].Reached)
	require.Equal(t, schema.PushUnknown, p.users[0].Routes[2].Result, "pending to the end is unknown")
}

func TestBatches(t *testing.T) {
	p := newPlan(people(), nil, filter{})
	got := p.batches(p.all(), 100)
	require.Len(t, got, 2)
	require.Equal(t, gateway(1), got[0].to)
	require.Equal(t, []int32{0, 2, 3}, got[0].at, "in the order of the recipients")
	require.Equal(t, 100+3*rowBytes+len("alice")*2+len("bob"), got[0].size)
	require.Equal(t, []schema.Recipient{{UID: "alice", Session: 1, Seq: 101}, {UID: "alice", Session: 2, Seq: 102}, {UID: "bob", Session: 3, Seq: 103}}, p.recipients(got[0]))
	require.Equal(t, batch{to: gateway(2), at: []int32{1}, size: 100 + rowBytes + len("alice")}, got[1])
	require.Empty(t, p.batches(nil, 100))
}

func TestDisowned(t *testing.T) {
	p := newPlan(append(people(), people()[0]), nil, filter{})
	p.settle(p.all(), []schema.PushResult{schema.PushWritten, schema.PushNoSession, schema.PushUnknown, schema.PushOwnerGone})
	p.finish()
	want := schema.Disowned{UID: "alice", Owner: gateway(2), Session: 1, Seq: 101}
	require.Equal(t, map[schema.Target][]schema.Disowned{people()[0].Target: {want}}, p.disowned(),
		"only no_session, once, and never who is unknown or whose gateway is gone")
}

// drawFound draws users, some twice, with routes on a few gateways.
func drawFound(t *rapid.T) []Found {
	n := rapid.IntRange(0, 40).Draw(t, "users")
	found := make([]Found, 0, n)
	for range n {
		uid := schema.UID(fmt.Sprint("u", rapid.IntRange(0, 30).Draw(t, "uid")))
		if k := slices.IndexFunc(found, func(f Found) bool { return f.UID == uid }); k >= 0 {
			found = append(found, found[k])
			continue
		}
		f := Found{UID: uid, State: schema.Offline}
		for r := range rapid.IntRange(0, 40).Draw(t, "routes") {
			f.State = schema.Online
			f.Routes = append(f.Routes, route(uid, rapid.IntRange(0, 3).Draw(t, "gateway"), 1000*len(found)+r, "d", "app"))
		}
		found = append(found, f)
	}
	return found
}

// Whatever was found: every route is sent to exactly once, in order, by its own gateway, in
// batches within the bounds; and each result comes back to its own route.
func TestPlanIsCompleteAndAligned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		found := drawFound(t)
		frame := rapid.SampledFrom([]int{100, schema.MaxPushBytes - 2000, schema.MaxPushBytes - 100}).Draw(t, "frame")
		p := newPlan(found, nil, filter{})
		require.Len(t, p.users, len(found))
		last := map[schema.Process]int32{}
		sent := map[int32]bool{}
		for _, b := range p.batches(p.all(), frame) {
			require.NotEmpty(t, b.at)
			require.LessOrEqual(t, len(b.at), schema.MaxRecipients)
			require.LessOrEqual(t, b.size, schema.MaxPushBytes)
			results := make([]schema.PushResult, len(b.at))
			for k, r := range p.recipients(b) {
				at := b.at[k]
				require.False(t, sent[at])
				sent[at] = true
				require.Equal(t, b.to, p.routes[at].Route.Owner)
				before, ok := last[b.to]
				require.True(t, !ok || before < at, "one gateway's in order")
				last[b.to] = at
				results[k] = schema.PushResult(1 + r.Session%3)
			}
			p.settle(b.at, results)
		}
		require.Len(t, sent, len(p.routes))
		p.finish()
		for i, u := range p.users {
			require.Equal(t, found[i].UID, u.UID)
			require.Equal(t, found[i].State, u.State)
			require.Len(t, u.Routes, len(found[i].Routes))
			for k, r := range u.Routes {
				require.Equal(t, found[i].Routes[k], *r.Route)
				require.Equal(t, schema.PushResult(1+r.Route.Session%3), r.Result)
			}
		}
	})
}

// The bound that cuts a push before it is made holds for every answer.
func TestReplySizeIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := schema.UID(rapid.StringN(1, 64, schema.MaxUID).Draw(t, "uid"))
		u := PushedUser{UID: uid, State: schema.Unknown, Why: client.WhyUnreachable}
		for range rapid.IntRange(0, 4).Draw(t, "routes") {
			r := route(uid, 1, 1, schema.DeviceID(rapid.StringN(0, 32, schema.MaxDevice).Draw(t, "device")), "app")
			r.Session = schema.SessionNum(rapid.Uint64().Draw(t, "session"))
			r.Owner.Node = schema.NodeID(strings.Repeat("n", rapid.IntRange(1, schema.MaxNode).Draw(t, "node")))
			u.Routes = append(u.Routes, PushedRoute{Route: &r, Result: schema.PushResult(rapid.IntRange(0, 6).Draw(t, "result"))})
		}
		reply := pushReply(&Pushed{Users: []PushedUser{u}}, 1, false)
		text, err := json.Marshal(reply.Results[0])
		require.NoError(t, err)
		require.LessOrEqual(t, len(text)+1, replySize(&u), "%s", text)
	})
}

// A user who was not reached has missed the message once, for the reason that leaves most open.
func TestMissed(t *testing.T) {
	results := func(uid schema.UID, list ...schema.PushResult) PushedUser {
		u := PushedUser{UID: uid, State: schema.Online}
		for _, r := range list {
			u.Routes = append(u.Routes, PushedRoute{Result: r})
			u.Reached = u.Reached || r.Reached()
		}
		return u
	}
	p := &plan{users: []PushedUser{
		results("reached", schema.PushWritten, schema.PushUnknown),
		results("unsure", schema.PushOwnerGone, schema.PushUnknown, schema.PushQueueFull),
		results("slow", schema.PushOwnerGone, schema.PushQueueFull),
		results("dead", schema.PushNoSession, schema.PushOwnerGone),
		results("left", schema.PushNoSession),
		results("unsure", schema.PushUnknown),
		{UID: "off", State: schema.Offline},
		{UID: "lost", State: schema.Unknown},
		{UID: "sender", State: schema.Online, skipped: true},
	}}
	require.Equal(t, []missed{{"unsure", schema.MissedUnknown}, {"slow", schema.MissedQueueFull}, {"dead", schema.MissedOwnerGone},
		{"left", schema.MissedOffline}, {"off", schema.MissedOffline}, {"lost", schema.MissedUnknown}}, p.missed())
}

func TestAcknowledge(t *testing.T) {
	p := newPlan(people(), nil, filter{})
	n := len(p.routes)
	require.Greater(t, n, 2)
	p.settle(p.all(), make([]schema.PushResult, n))
	p.settle([]int32{0, 1}, []schema.PushResult{schema.PushWritten, schema.PushWritten})
	p.acknowledge([]int32{0, 1, 2}, []schema.PushResult{schema.PushAcked, schema.PushWritten, schema.PushPending})
	require.Equal(t, []schema.PushResult{schema.PushAcked, schema.PushWritten, schema.PushUnknown}, []schema.PushResult{p.routes[0].Result, p.routes[1].Result, p.routes[2].Result})
	p.acknowledge([]int32{1}, nil)
	require.Equal(t, schema.PushWritten, p.routes[1].Result)
}
