package mesh

import (
	"maps"
	"slices"

	"github.com/rollcall-mesh/rollcall/schema"
)

// Client is one end of a connection to a gateway: a Device or a Socket.
type Client interface {
	User() schema.UID
	// Current gives the session that the client holds open; false where it holds none.
	Current() (schema.SessionID, bool)
	// Got counts how often a message came.
	Got(id string) int
}

// keep takes note of a client; it is told to let go of all that it is at the end of the test.
func (m *Mesh) keep(c Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[c] = struct{}{}
}

// drop lets go of a client.
func (m *Mesh) drop(s *Socket) {
	for _, g := range m.Gateways {
		g.forget(s.Link)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, s)
}

// forgetAll ends the sockets that are left. Devices end by themselves.
func (m *Mesh) forgetAll() {
	m.mu.Lock()
	left := slices.Collect(maps.Keys(m.clients))
	m.mu.Unlock()
	for _, c := range left {
		if s, ok := c.(*Socket); ok {
			s.Forget()
		}
	}
}
