package delivery

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
)

// told gives what a plan says of each user: "uid state reached gateway.session:result ...".
func told(p *plan) []string {
	list := make([]string, len(p.users))
	for i, u := range p.users {
		list[i] = fmt.Sprintf("%s %s %v", u.UID, u.State, u.Reached)
		for _, r := range u.Routes {
			list[i] += fmt.Sprintf(" %s.%d:%s", r.Route.Owner.Node, r.Route.Session, r.Result)
		}
	}
	return list
}

// Users whom the cache has misled get what a new look-up says, and no session is sent to twice.
func TestRenew(t *testing.T) {
	alice := online("alice", route("alice", 1, 1, "phone", "app"), route("alice", 1, 2, "tab", "app"), route("alice", 2, 3, "web", "web"))
	for name, c := range map[string]struct {
		results []schema.PushResult // of alice's routes, then bob's
		fresh   Found               // of alice
		again   []string            // sent to
		want    string              // of alice, after all that is sent is written
		removed int                 // at the authority
	}{
		"moved": {
			[]schema.PushResult{schema.PushOwnerGone, schema.PushNoSession, schema.PushWritten, schema.PushWritten},
			online("alice", route("alice", 3, 9, "phone", "app"), route("alice", 2, 3, "web", "web")),
			[]string{"alice@gw-3.9"}, "alice online true gw-2.3:written gw-3.9:written", 0,
		},
		"gone": {
			[]schema.PushResult{schema.PushOwnerGone, schema.PushNoSession, schema.PushNoSession, schema.PushWritten},
			Found{UID: "alice", State: schema.Offline}, nil, "alice offline false", 0,
		},
		"still told of": {
			[]schema.PushResult{schema.PushOwnerGone, schema.PushNoSession, schema.PushQueueFull, schema.PushWritten},
			alice, nil, "alice online false gw-1.1:owner_gone gw-1.2:no_session gw-2.3:queue_full", 1,
		},
		"nobody knows": {
			[]schema.PushResult{schema.PushWritten, schema.PushNoSession, schema.PushUnknown, schema.PushWritten},
			Found{UID: "alice", State: schema.Unknown}, nil, "alice unknown true gw-1.1:written gw-2.3:unknown", 0,
		},
		"written, and left meanwhile": {
			[]schema.PushResult{schema.PushWritten, schema.PushNoSession, schema.PushQueueFull, schema.PushWritten},
			online("alice", route("alice", 1, 4, "tab", "app")), []string{"alice@gw-1.4"},
			"alice online true gw-1.1:written gw-2.3:queue_full gw-1.4:written", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bob := online("bob", route("bob", 1, 8, "phone", "app"))
			carol := online("carol", route("carol", 1, 7, "phone", "app"))
			p := newPlan([]Found{bob, alice, bob, alice, carol}, []bool{true, true, true, true, false}, filter{})
			var before []int32 // all but carol's
			for i := range p.routes {
				r := &p.routes[i]
				switch r.Route.UID {
				case "bob":
					r.Result = c.results[3]
				case "alice":
					r.Result = c.results[r.Route.Session-1]
				case "carol":
					r.Result = schema.PushNoSession
					continue
				}
				before = append(before, int32(i))
			}
			require.Equal(t, []schema.UID{"alice"}, p.misled(p.refused(p.all())), "carol was looked up")
			require.Empty(t, p.misled(p.refused(p.all())), "once a plan")
			var again []string
			for _, k := range p.renew([]Found{c.fresh}, filter{}) {
				r := &p.routes[k]
				again = append(again, fmt.Sprintf("%s@%s.%d", r.Route.UID, r.Route.Owner.Node, r.Route.Session))
				require.NotContains(t, before, k)
				r.Result = schema.PushWritten
			}
			require.Equal(t, c.again, again)
			p.finish()
			require.Equal(t, []string{"bob online true gw-1.8:written", c.want, "bob online true gw-1.8:written", c.want, "carol online false gw-1.7:no_session"}, told(p))
			removed := 0
			for _, list := range p.disowned() {
				removed += len(list)
			}
			require.Equal(t, c.removed+1, removed, "and carol's")
		})
	}
}

// An answer that has outgrown a message tells who was reached, without the routes of those.
func TestShorten(t *testing.T) {
	list := []schema.PushedReply{
		{UID: "alice", Reached: true, Routes: []schema.RoutePushed{{Node: "gw-1", Result: schema.PushWritten}}},
		{UID: "bob", Routes: []schema.RoutePushed{{Node: "gw-1", Result: schema.PushQueueFull}}},
	}
	shorten(list)
	require.Equal(t, []schema.RoutePushed{}, list[0].Routes)
	require.Len(t, list[1].Routes, 1)
}
