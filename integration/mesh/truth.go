package mesh

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rollcall-mesh/rollcall/delivery"
	"github.com/rollcall-mesh/rollcall/schema"
)

// of gives the clients of a user that hold a session, by session.
func (m *Mesh) of(uid schema.UID) map[schema.SessionID]Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := map[schema.SessionID]Client{}
	for c := range m.clients {
		if c.User() != uid {
			continue
		}
		if s, ok := c.Current(); ok {
			open[s] = c
		}
	}
	return open
}

// Find looks one user up.
func (m *Mesh) Find(uid schema.UID) delivery.Found {
	m.T.Helper()
	found, err := m.Lookup(context.Background(), []schema.UID{uid})
	require.NoError(m.T, err)
	return found[0]
}

// Sessions gives the sessions that the mesh shows of a user, in a fixed order.
func (m *Mesh) Sessions(uid schema.UID) []schema.SessionID {
	m.T.Helper()
	return sessions(m.Find(uid))
}

func sessions(f delivery.Found) []schema.SessionID {
	list := make([]schema.SessionID, len(f.Routes))
	for i := range f.Routes {
		list[i] = f.Routes[i].Session.Outside(f.Routes[i].Owner.Boot)
	}
	slices.Sort(list)
	return list
}

// settleWait bounds what may still be under way when a test looks at the truth: an unregister that
// has to be repeated.
const settleWait = 10 * time.Second

// Truth waits until what the mesh shows of users is what their clients hold open, and fails the
// test where it does not become so. Then a message to each must be written to exactly those
// sessions, and come once to each.
func (m *Mesh) Truth(uids ...schema.UID) {
	m.T.Helper()
	for _, uid := range uids {
		m.settle(uid)
		m.reach(uid)
	}
}

func (m *Mesh) settle(uid schema.UID) {
	m.T.Helper()
	late := time.Now().Add(settleWait)
	for why := m.differs(uid); why != ""; why = m.differs(uid) {
		require.True(m.T, time.Now().Before(late), why)
		m.Pass(20 * time.Millisecond)
	}
}

// differs says how what the mesh shows of a user is not what its clients hold open.
func (m *Mesh) differs(uid schema.UID) string {
	open, f := m.of(uid), m.Find(uid)
	state := schema.Offline
	if len(open) > 0 {
		state = schema.Online
	}
	seen := sessions(f)
	if f.State != state || f.Partial || f.Suspect || len(seen) != len(open) {
		return fmt.Sprintf("%s is %s (partial %v, suspect %v) with %v, where %d sessions are open", uid, f.State, f.Partial, f.Suspect, seen, len(open))
	}
	for _, s := range seen {
		if open[s] == nil {
			return fmt.Sprintf("session %s of %s is seen and not open", s, uid)
		}
	}
	return ""
}

// reach pushes to a user and checks that each of its sessions gets the message once.
func (m *Mesh) reach(uid schema.UID) {
	m.T.Helper()
	open := m.of(uid)
	id := m.name("truth")
	pushed := m.PushTo(uid, id)
	require.Equal(m.T, len(open) > 0, pushed.Reached, "reached %s", uid)
	require.Len(m.T, pushed.Routes, len(open))
	for _, r := range pushed.Routes {
		require.Equal(m.T, schema.PushWritten, r.Result, "push to %s", uid)
	}
	m.Still()
	for s, c := range open {
		require.Equal(m.T, 1, c.Got(id), "session %s of %s got the message", s, uid)
	}
}

// PushTo pushes one message to a user, and tells what became of it.
func (m *Mesh) PushTo(uid schema.UID, id string) delivery.PushedUser {
	m.T.Helper()
	pushed, err := m.Push(context.Background(), delivery.Message{ID: id, From: "mesh", Payload: []byte(`"hi"`)}, []schema.UID{uid})
	require.NoError(m.T, err)
	require.Equal(m.T, id, pushed.ID)
	return pushed.Users[0]
}

// Results gives what became of a message on each route.
func Results(p delivery.PushedUser) []schema.PushResult {
	list := make([]schema.PushResult, len(p.Routes))
	for i, r := range p.Routes {
		list[i] = r.Result
	}
	return list
}

// Describe gives what a look-up says of a user: its sessions, or its state where it has none.
func Describe(f delivery.Found) string {
	list := make([]string, 0, len(f.Routes))
	for _, s := range sessions(f) {
		list = append(list, string(s))
	}
	if len(list) == 0 {
		return string(f.State)
	}
	return strings.Join(list, " ")
}
