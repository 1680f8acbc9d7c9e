// Package deploy holds the files that a mesh is run with, and gives them to the program that runs
// the same mesh inside one process.
//
//	deploy/nats.conf --> nats-server --config          (production)
//	             `-----> With(passwords) --> cmd/app   (demo, all --embed, the integration tests)
//
// Invariants: there is one server configuration. What a demo shows, the accounts, the users, what
// each may publish and the disconnect events that it imports, is what production runs. The
// passwords are variables of the file: a real server takes them from its environment, With from
// its argument, and both refuse to start where one is missing.
//
// It starts no goroutine and does no I/O. The permissions are tested in integration/deploy, role by
// role, since that takes a server.
//
//	failure                          what happens
//	a password variable is missing   nats-server refuses the file and names the variable
//	a role needs a subject more      its publish is refused: the role logs which one
package deploy
