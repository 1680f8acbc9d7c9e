// Package app is the program rollcall: its command line, the wiring of the long-running roles, the
// nats-server that the demo runs inside itself, and the commands for people.
//
//	main --> Run(args) --> kong grammar (grammar.go)
//	                         |  flag > environment > config file > default (configfile.go)
//	         +---------------+----------------+--------------------------+
//	         v                                v                          v
//	 roles: gateway authority        asking: lookup push kick     no NATS: token decode
//	 delivery all demo (role*.go)    explain slots nodes stats    config version
//	         |                       events watch connect setup
//	         v                                v
//	 dialer.wait: until NATS is there  dialer.once: or exit 4
//	         |                                |
//	 lease, authority, gateway,        service "presence" (ask.go)
//	 delivery; admin listener
//
// Invariants: nothing below cmd reads the environment or the command line; a command's error is one
// line that says what to do, and its kind decides the exit code in one place (exit.go): 0 ok, 1
// failed, 2 usage, 3 some answers unknown, 4 no NATS or service; a role's NATS connections are its
// own, also where several roles run in one process; secrets are taken from the environment, a file
// or the config file, never put into the arguments of another process.
//
// Goroutines: Run has none of its own. A role starts its parts with together (parts.go), which waits
// for all of them; the admin listener is such a part, and what others call upon is stopped last
// (onTop). The embedded server's are ended by NATS.Stop. connect has one that reads the terminal: it
// ends with the program, since such a read cannot be stopped.
//
//	failure                      what happens
//	NATS is not there            a role waits and says so; a command exits 4
//	NATS refuses a subject       a role logs which one; a command ends with that line, not a time-out
//	a port is in use             one line that names the flag, exit 1
//	one role of `all` ends       the others are stopped and its error is the program's
//	second Ctrl-C                the process ends at once
package app
