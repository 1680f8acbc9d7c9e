// Package sessions tests the mesh as it is run: every part a process of its own beside a real
// nats-server with the users and permissions of deploy/nats.conf, thousands of sessions, signals that
// kill. What needs virtual time stands in integration/mesh; what people see of the program in
// integration/cli.
//
//	this process                      processes of their own
//	  device x 2,000 -- TCP --------> gateway gw-1, gw-2 --+
//	  backend, JSON  -- TCP --+                            +--> nats-server <-- authority a-1, a-2
//	                          +-- presence.* ------------------>     ^-------- delivery d-1
//
// A device is the Go client above a connection that writes down every byte: its ledger counts what
// was really sent to the socket, not what the client makes of it, which would hide a message that
// came twice.
//
// Watchers are clients and backends of this process too; package watching judges what they are told.
//
// What is asserted is exact: the sessions that a look-up shows are those that the devices hold, and
// after a last message to all, every ledger holds what it should, once. Times are generous bounds
// for a busy machine; each test logs what it measured.
package sessions
