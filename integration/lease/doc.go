// Package lease tests authority/lease against an embedded NATS server, in virtual time: leases run
// out in milliseconds, and requests are lost at will.
package lease
