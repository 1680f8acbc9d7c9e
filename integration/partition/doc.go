// Package partition shows that subjects.SlotOf is what a real server's subject mapping makes of a
// uid token:
//
//	publish by.<uid token> --- nats-server, mapping by.* -> slot {{partition(256,1)}} ---> in.<slot>.<uid token>
//
// If it were not, streams and consumers that an operator splits by such a mapping would not hold
// what the directory's slots hold.
package partition
