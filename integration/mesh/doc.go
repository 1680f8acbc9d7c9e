// Package mesh is the stage of the tests that need the whole mesh: authorities, gateways, delivery
// with its service, and clients, all in one testing/synctest bubble, each process on network links
// of its own.
//
//	device (Go client) --+                        +-- control link --+
//	socket (raw bytes) --+-- client links -- gateway                 +-- embedded NATS server
//	                                              +-- push link -----+            |
//	                          authority -- link --------------------------------- +
//	                          delivery, service -- link ------------------------- +
//	                          outsider (events, raw requests) -- link ----------- +
//
//	mesh.Run(t, mesh.Options{}, func(t *testing.T, m *mesh.Mesh) {
//		one, two := m.Gateways[0], m.Gateways[1]
//		old := one.Login("alice", "phone")
//		one.Control.LoseIn("kick.>", 1)          // a fault: see package bubble
//		again := two.Login("alice", "phone")
//		require.Equal(t, schema.CloseReplaced, old.Stopped())
//		m.Truth("alice")                         // what is seen is what is connected
//	})
//
// A process ends in one of three ways. Stop ends it in good order. Kill is SIGKILL: the kernel
// closes its connections, so the server and its clients know at once, and nothing that the process
// still does reaches anybody. Vanish is a machine that lost its network: the server is told
// nothing.
//
// Truth is what every test ends with: the routes that the mesh shows of a user are exactly the
// sessions that its clients hold open, and a message to the user reaches each of them once.
//
// Time is virtual and exact: what no timer delays takes no time at all, so a test may assert that
// a message took 0 s.
//
// # Goroutines
//
// Those of the processes; a Device has the one of its Run, a Socket one that reads. All end with
// the test.
package mesh
