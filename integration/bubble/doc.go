// Package bubble is the stage of the tests that need a NATS server and time: an embedded
// nats-server with JetStream, connections to it that can be cut and tampered with, and listeners
// without a network, all inside one testing/synctest bubble. Leases end, heartbeats are missed and
// hours pass in milliseconds.
//
//	func TestLease(t *testing.T) {
//		bubble.Run(t, func(t *testing.T, s *bubble.Server) {
//			a, link := s.Dial("authority/a-1")      // *nats.Conn, closed by t.Cleanup
//			...
//			link.LoseAnswer("$KV.presence.>", 1)     // the next write is persisted, its answer lost
//			link.Cut()                               // nothing passes, nobody is told
//			time.Sleep(time.Minute)                  // virtual
//			link.Heal()                              // what was held back arrives
//			bubble.Until(t, time.Second, "...", func() bool { return ... })
//		})
//	}
//
//	process --- nats.Conn --- Link --- Server       client --- Listener.Dial --- Listener --- http.Server
//	             rules: lose, lose the answer,                    cut, healed
//	             delay, duplicate, echo; cut, heal, reset
//
// Rules of the house inside a bubble:
//   - All that a test starts must end before its function and its cleanups do: defer a cancel and
//     wait for what Run returns (Go does both).
//   - t.Context() ends only after the function: cleanups run after it ended.
//   - No t.Parallel in these packages. TestMain calls goleak.VerifyTestMain.
//   - Prefer calls of nats.go that take a context: it pools timers across bubbles. Run collects
//     garbage twice first, which empties those pools.
//   - A sleep costs nothing but what the processes do meanwhile: each second of virtual time costs
//     some tens of microseconds a process for pings and renewals.
//
// Goroutines: two a connection of a link, ended when both ends are closed; a Link that is cut
// keeps a closed connection's server end open, as a network does, until it is healed or the test
// ends.
package bubble
