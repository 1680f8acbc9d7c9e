// Package upstream tests what clients send, between real processes: a gateway, and backends that share
// a queue group, are slow, refuse, answer nonsense and are killed. Each limit and each failure has its
// code, and costs nobody but the session concerned: a bystander sends all the while.
//
//	greedy    --+                                     +--> backend b-1 --+
//	            +--> gateway --> up.<slot>.<uid> -----+                  +-- queue group "chat"
//	bystander --+                                     +--> backend b-2 --+
//
// A backend is this test program once more; what it does with a message stands in its payload.
package upstream
