package mesh

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/schema"
	"github.com/rollcall-mesh/rollcall/subjects"
)

// Events are what the authorities have told since Follow.
type Events struct {
	m *Mesh

	mu  sync.Mutex
	all []Event
}

// Event is one event, and when it came.
type Event struct {
	Came time.Time
	schema.Event
}

// Follow listens to the events of all users and slots from now on. then, where given, is called for each.
func (m *Mesh) Follow(then ...func(schema.Event)) *Events {
	m.T.Helper()
	e := &Events{m: m}
	m.Still() // what was told before is not meant
	_, err := m.Outsider.Subscribe(subjects.Prefix("").AllEvents(), func(msg *nats.Msg) {
		var one schema.Event
		if err := json.Unmarshal(msg.Data, &one); err != nil {
			panic(err)
		}
		e.mu.Lock()
		e.all = append(e.all, Event{time.Now(), one})
		e.mu.Unlock()
		for _, f := range then {
			f(one)
		}
	})
	require.NoError(m.T, err)
	require.NoError(m.T, m.Outsider.Flush())
	return e
}

// Of gives the events of a user, in order, as type and reason.
func (e *Events) Of(uid schema.UID) (told []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.UID == uid {
			told = append(told, string(one.Type)+" "+one.Reason.String())
		}
	}
	return told
}

// Once is Of for who takes nothing that is not above the stamp he has: where a stream keeps events,
// some are told twice.
func (e *Events) Once(uid schema.UID) (told []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var last schema.Stamp
	for _, one := range e.all {
		if one.UID == uid && last.Compare(one.Stamp) < 0 {
			last = one.Stamp
			told = append(told, string(one.Type)+" "+one.Reason.String())
		}
	}
	return told
}

// Last gives the last event of a user.
func (e *Events) Last(uid schema.UID) (last Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.UID == uid {
			last = one
		}
	}
	return last
}

// CommittedInTurn checks that nobody has committed a login in a slot under a fence below one that a login was
// committed under before.
func (e *Events) CommittedInTurn() {
	e.m.T.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var top [schema.Slots]Event
	for _, one := range e.all {
		if one.Type != schema.EventOnline && one.Type != schema.EventAdded {
			continue
		}
		last := &top[one.Slot]
		require.False(e.m.T, one.Stamp.Fence < last.Stamp.Fence && one.Came.After(last.Came), "%s came under %v, %v after one under %v", one.UID, one.Stamp, one.Came.Sub(last.Came), last.Stamp)
		if one.Stamp.Fence > last.Stamp.Fence {
			*last = one
		}
	}
}
