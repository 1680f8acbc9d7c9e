// Package deploy tests what nats-server makes of deploy/nats.conf: that each role can do what it
// needs, and is refused what it must not.
package deploy
