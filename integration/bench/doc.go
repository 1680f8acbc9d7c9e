// Package bench measures what operations of the mesh cost: CPU time of all processes summed, in
// turn with a raw NATS request of the same bytes in the same run.
//
//	+-- go test: driver, client ------+      +-- child: nats --+      +-- child: authority -----+
//	| authority/client, delivery, raw | <--> | nats-server     | <--> | rollcall authority      |
//	+---------------------------------+ TCP  | deploy/nats.conf|      +-- child: echo ----------+
//	  reads every child's CPU clock          +-----------------+ <--> | answers raw.<n>         |
//	                                                 ^                +-------------------------+
//	                                                 +--------------> rollcall gateway, 10 gateways with mute
//	                                                                  clients, or idle WebSocket clients
//
// The children are this test program again, told apart by an environment variable; they end when
// the driver lets go of their standard input. The product's processes are cmd/app.Run, as in the
// binary.
//
//	make bench                        all rows, then one table
//	make bench BENCH=Mesh/lookup      some
//	ROLLCALL_BENCH_PROFILES=DIR       a CPU profile of each child into DIR
//
// What each row is:
//
//	BenchmarkMesh     operations on one authority that holds 200,000 routes: look-up of 1,000 random
//	                  uids, single look-ups of 512 callers (raw: as many raw requests at a time),
//	                  register one by one (its event included), register by 64 callers until a
//	                  listener has heard of all (events/s), sync of 1,000 routes of one slot in
//	                  two chunks, touch of the sessions that a gateway of 100,000 has in one slot
//	BenchmarkPush     delivery.Push to 1,000 users on ten gateways. Their clients have no socket, since
//	                  a socket write costs ten times what is measured; in the first row writes are held
//	                  back meanwhile, so that it ends with the message in each session's queue
//	BenchmarkCache    look-up and push of the same 1,000 users over and over, with the route cache and
//	                  without, in turn
//	BenchmarkSockets  a push through TCP to one client, one at a time and by 64 callers; CPU of the
//	                  gateway for a change of a user whom 1,000 watch; RSS of 5,000 idle connections
//	BenchmarkMemory   a million routes in one authority
//
// A figure is the median of five slices of at least 0.4 s each. Limits are those that the project
// has set itself; a row says by how much it misses one. CPU is read from the process's CPU-time
// clock, so these benchmarks run on Linux.
//
// A busy machine adds to everything: caches are shared. The table says what load there was.
package bench
