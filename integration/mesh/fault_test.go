package mesh_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/integration/bubble"
	"github.com/rollcall-mesh/rollcall/integration/mesh"
	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// moment is when in a life the fault is put in.
type moment uint8

const (
	atLogin moment = iota // before the second login
	atPush
	inStay // while the second session lives
	atLeave
)

// operation is a message that may be lost on its way.
type operation struct {
	name    string
	pattern string
	when    moment
	try     time.Duration // after which it is asked again
	link    func(m *mesh.Mesh, second *mesh.Gateway) *bubble.Link
}

func ofSecond(_ *mesh.Mesh, second *mesh.Gateway) *bubble.Link { return second.Control }
func ofFirst(m *mesh.Mesh, _ *mesh.Gateway) *bubble.Link       { return m.Gateways[0].Control }
func ofDelivery(m *mesh.Mesh, _ *mesh.Gateway) *bubble.Link    { return m.Asker }

var operations = []operation{
	{"register", "slot.*.*.register", atLogin, 500 * time.Millisecond, ofSecond},
	{"commit", "slot.*.*.commit", atLogin, 500 * time.Millisecond, ofSecond},
	{"kick", "kick.>", atLogin, 400 * time.Millisecond, ofSecond},
	{"unregister of the displaced", "slot.*.*.unregister", atLogin, 2 * time.Second, ofFirst},
	{"push", "push.>", atPush, 2 * time.Second, ofDelivery},
	{"touch", "slot.*.*.touch", inStay, 2 * time.Second, ofSecond},
	{"unregister", "slot.*.*.unregister", atLeave, 2 * time.Second, ofSecond},
}

// fault is what befalls one message.
type fault struct {
	name string
	on   func(l *bubble.Link, o operation) *bubble.Rule
	// late is after how long nothing that the fault holds back is still to come.
	late time.Duration
	// push is what delivery tells of a push that meets the fault, and got how often it came.
	push schema.PushResult
	got  int
}

// long outlives the session that a message is of.
const long = 2 * time.Minute

var faults = []fault{
	{
		name: "lost before", push: schema.PushUnknown, got: 0,
		on: func(l *bubble.Link, o operation) *bubble.Rule { return l.Lose(o.pattern, 1) },
	}, {
		name: "lost after", push: schema.PushUnknown, got: 1,
		on: func(l *bubble.Link, o operation) *bubble.Rule { return l.LoseAnswer(o.pattern, 1) },
	}, {
		name: "duplicated", push: schema.PushWritten, got: 1,
		on: func(l *bubble.Link, o operation) *bubble.Rule { return l.Duplicate(o.pattern, 1) },
	}, {
		name: "delayed", push: schema.PushWritten, got: 1,
		on: func(l *bubble.Link, o operation) *bubble.Rule { return l.Delay(o.pattern, 1, o.try/2) },
	}, {
		name: "delayed past its retry", push: schema.PushUnknown, got: 1, late: 5 * time.Second,
		on: func(l *bubble.Link, o operation) *bubble.Rule {
			return l.Delay(o.pattern, 1, o.try+100*time.Millisecond)
		},
	}, {
		name: "delayed past its session", push: schema.PushUnknown, got: 0, late: long,
		on: func(l *bubble.Link, o operation) *bubble.Rule { return l.Delay(o.pattern, 1, long) },
	},
}

// TestFaults loses, doubles and delays each message in the life of a session that displaces another
// one, on one gateway and across two. Whatever befalls it: the login comes in, the displaced client
// hears the right code, what is seen stays what is connected, nothing comes back afterwards, and
// nobody is locked out.
func TestFaults(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			mesh.Run(t, mesh.Options{Config: mesh.Prompt}, func(t *testing.T, m *mesh.Mesh) {
				told := m.Follow()
				var gone []*life
				for n, f := range slices.Repeat(faults, 4) {
					l := &life{
						t: t, m: m, operation: o, fault: f, told: told,
						second: m.Gateways[n/len(faults)%2],
						end:    [...]schema.CloseCode{schema.CloseReplaced, schema.CloseKicked}[n/len(faults)/2],
					}
					l.uid = inSlot(7, fmt.Sprintf("%s.%s.%s.%d", o.name, f.name, l.second.Node, l.end))
					l.live()
					gone = append(gone, l)
				}
				m.Pass(long)
				for _, l := range gone {
					l.isOver()
				}
			})
		})
	}
}

// inSlot gives a uid of a slot. All are of one, so that what is remembered of a session that is out
// meets the requests of others, with their settled marks.
func inSlot(s schema.Slot, name string) schema.UID {
	for n := 0; ; n++ {
		if uid := schema.UID(fmt.Sprintf("%s.%d", name, n)); subjects.SlotOf(uid) == s {
			return uid
		}
	}
}

// life is the life of one session, with one fault in it.
type life struct {
	operation
	fault
	t      *testing.T
	m      *mesh.Mesh
	told   *mesh.Events
	uid    schema.UID
	second *mesh.Gateway
	end    schema.CloseCode // of the displaced session
	rule   *bubble.Rule
}

// at puts the fault in, where this is the moment for it.
func (l *life) at(now moment) {
	if l.when == now {
		l.rule = l.on(l.link(l.m, l.second), l.operation)
	}
}

// local reports whether no message is sent: a gateway ends its own sessions itself.
func (l *life) local() bool { return l.operation.name == "kick" && l.second == l.m.Gateways[0] }

func (l *life) live() {
	old := l.m.Gateways[0].Enter(l.uid, mesh.As("d1", "app", schema.Master))
	l.at(atLogin)
	device := schema.DeviceID("d1")
	if l.end == schema.CloseKicked {
		device = "d2"
	}
	began := time.Now()
	fresh := l.second.Enter(l.uid, mesh.As(device, "app", schema.Master))
	require.Less(l.t, time.Since(began), 2500*time.Millisecond, "%s: login", l.uid)
	require.Equal(l.t, l.end, old.Ended().Code, l.uid)
	l.m.Truth(l.uid)
	l.at(atPush)
	l.push(fresh)
	l.at(inStay)
	l.stay()
	l.at(atLeave)
	fresh.Leave()
	l.m.Truth(l.uid)
	want := 1
	if l.local() {
		want = 0
	}
	require.Equal(l.t, want, l.rule.Hits(), "%s: messages met", l.uid)
	l.rule.Remove()
}

// push sends a message, and checks that what is told of it is what became of it.
func (l *life) push(to *mesh.Socket) {
	result, got := schema.PushWritten, 1
	if l.when == atPush {
		result, got = l.fault.push, l.fault.got
	}
	told := l.m.PushTo(l.uid, "m")
	require.Equal(l.t, []schema.PushResult{result}, mesh.Results(told), l.uid)
	require.Equal(l.t, result == schema.PushWritten, told.Reached, l.uid)
	l.m.Pass(2 * time.Second)
	times := to.Got("m")
	if l.when == atPush && l.fault.name == "duplicated" {
		times-- // the wire doubled it, not the gateway; a client drops the second by its id
	}
	require.Equal(l.t, got, times, l.uid)
}

// stay lets the session live on, past its time to live where touches are what is lost: its route
// never goes.
func (l *life) stay() {
	rounds := 1
	if l.when == inStay {
		rounds = 50
	}
	for range rounds {
		l.m.Pass(2 * time.Second)
		found := l.m.Find(l.uid)
		require.Len(l.t, found.Routes, 1, l.uid)
		require.Greater(l.t, found.Routes[0].TTL, 45*time.Second, l.uid)
	}
}

// isOver checks, long after, that the session has left nothing, that watchers were told its life
// as it was, and that the user may come again anywhere.
func (l *life) isOver() {
	l.m.Truth(l.uid)
	why := map[schema.CloseCode]string{schema.CloseReplaced: "replaced", schema.CloseKicked: "kicked"}[l.end]
	require.Equal(l.t, []string{"online connect", "removed " + why, "added connect", "offline leave"}, l.told.Of(l.uid), l.uid)
	for _, g := range l.m.Gateways {
		again := g.Enter(l.uid, mesh.As("d1", "app", schema.Master))
		l.m.Truth(l.uid)
		again.Leave()
		l.m.Truth(l.uid)
	}
}
