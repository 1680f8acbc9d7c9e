// Package faults is the campaign: real processes, real NATS servers, real signals, and a mesh that has
// to be itself again. It owns nothing of the product. It runs by `make faults` only, since it takes
// minutes and wants the machine to itself; in `go test ./...` every test of it is skipped.
//
//	make faults                the whole campaign, at most 40 min, the last part of it at the defaults
//	make faults SHORT=1        each row, seldom repeated, with a tenth of the users: at most 6 min
//	make faults FAULT=Killed   the rows whose name matches
//
// A stage is the same for every row:
//
//	                          +-- proxy (of the nodes that a row names): cut, stall, lose by subject
//	                          v
//	3 authorities ------> 1 or 3 nats-servers, as deploy/nats.conf says, with or without disconnect events
//	2 gateways ---------->    ^        ^        ^
//	1 delivery ---------->    |        |        |
//	   ^                      |        |        |
//	   | WebSocket            |        |        +-- owners: who owns which slot since when (a lease.View)
//	fleet: 500 or 5,000 users |        +-- probe: every 20 ms a look-up of 256 users, one a slot
//	   '--- ledger: what came +-- ledger: 100 or 500 pushes a second, and what was said of each
//
//	TestKilledAuthority               kill -9, events imported       TestKilledLeader         kill -9 of the stream's leader
//	TestKilledAuthorityWithoutEvents  the lease decides              TestJetStreamUnavailable two of three servers gone
//	TestRollingRestart                SIGTERM, one after the other   TestNATSRestarted        all servers; bucket, disks lost
//	TestStoppedAuthority              SIGSTOP beyond its lease       TestKilledGateway        kill -9, restart, conflicts past it
//	TestAuthorityCutOff               its connection, short and long TestGatewayCutOff        its network, three times as long
//	TestAuthorityWithoutJetStream     everything but the bucket      TestGatewayStoppedInARebuild
//	TestAuthorityKilledBeforeCommit   between a kick and a commit    TestAuthorityJoins       a third beside two with a million routes
//	TestStoresRestored                two of three disks are older copies: the log loses its tail
//	TestKilledLeaderOfTheEvents       kill -9 of the leader of the stream of events, while users come and go
//
// Each row prints its figures and requires the bounds that the project has set itself. A pass says by
// which settings: a tenth of the defaults, or the defaults, where times of a fault scale along. What
// does not scale is fixed in the product: a try of a request, the 100 ms in which an authority may
// return, the pace at which gateways redial.
//
// # What is measured
//
//   - The unknown window of a slot: from the fault to the first answer that is not unknown, of look-ups
//     sent when the fault was done. Percentiles are over slots. Where there is no moment of a fault, as in
//     a rolling restart: the longest time for which look-ups found a slot unknown, 0 where none did. A
//     look-up without an answer in 3 s has found all unknown.
//   - "Of a connected user offline": an answer offline, in a look-up or a push, of a user whose socket
//     was open, as its client saw it, from before the question until after the answer (100 ms more each
//     way, since a client learns a little late that its socket is gone).
//   - "To a wrong session": a message that came to a user, or a session, to whom its sender was not told
//     that it was written. "Lost": one that was written to a session which stayed open, and never came.
//   - Churn, where a row has it: logins all the while. An event of a commit under a fence, after one of
//     the same slot under a higher, is a commit by a deposed owner; 250 ms are allowed for their way.
//
// A crowd, in TestAuthorityJoins, is a process of ten gateways whose sessions have no sockets: it
// speaks to authorities by package authority/client, as gateways do.
//
// A busy machine adds to everything, since seven processes and the users share its cores: each stage
// prints the load average that it began under. The servers' writes do not wait for the disk, as no row
// takes the power away.
//
// # Goroutines
//
// In the test's process: three a user (its client's), one a look-up or push without an answer, one each
// for the probe, the ledger, the owners' view and each guest of churn, four a proxied connection. All
// end with their test. The processes are killed at its end.
//
//	failure                        what it looks like
//	a bound is missed              the row fails with the figure; the processes' logs follow
//	the mesh does not settle       "not in time: ...", after 90 s
//	the test program is killed     processes are left over: rollcall and faults.test, to be ended by hand
package faults
