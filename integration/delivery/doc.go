// Package delivery holds the tests of delivery and of authority/client that need a NATS
// server: with a real authority, and gateways that are a key, and do with pushes and kicks what a
// test says.
//
//	Delivery ---lookup---> authority.Worker <---register--- fake gateway
//	    \---------push, kick--------------------------------->/
package delivery
