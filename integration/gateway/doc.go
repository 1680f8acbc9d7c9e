// Package gateway tests gateways with real authorities over an embedded NATS server, in virtual
// time: logins and their conflicts, lost and late messages, silent networks, lives that end.
package gateway
