package lease

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// connection names one connection to one server: each reconnect is another. The server gives both
// numbers to the client, and names them in the event when the connection has ended.
type connection struct {
	server string
	client uint64
}

// connected gives the connection of the moment; the zero value where there is none.
func connected(nc *nats.Conn) connection {
	client, err := nc.GetClientID()
	server := nc.ConnectedServerId() // empty while it reconnects
	if err != nil || server == "" {
		return connection{}
	}
	return connection{server: server, client: client}
}

func (c connection) String() string {
	if c == (connection{}) {
		return ""
	}
	return ConnectionName(c.server, c.client)
}

// ConnectionName is how an authority's key names the connection over which it was last renewed.
func ConnectionName(server string, client uint64) string { return fmt.Sprintf("%s/%d", server, client) }
