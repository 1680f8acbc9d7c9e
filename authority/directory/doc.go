// Package directory is the pure in-memory directory of one slot in one tenure of its authority:
// uid -> routes. It takes the time and a request and returns an answer and events; it has no lock,
// clock, context or network. The worker (package authority) owns one a slot, calls it from one
// goroutine at a time, and lets in only operations of gateway boots whose key is known to live.
//
//	Register, Commit, Unregister, Sync, Remove      Touch         Lookup, Explain
//	           |                                      |              |
//	         sender: owner, settled mark            sender           |
//	           |                                      |              |
//	    open -> change -> close -> events             |              |
//	           |  (policy, damper)                    |              |
//	           v                                      v              v
//	  by uid ----> record -> record -> (out ...)   by owner and   by uid
//	                 |                             session
//	                 +-- ring of its owner: standing | out   <- Gone, sweeps
//	                 +-- wheel of seconds                    <- Expire
//
// One record is all that is known of one identity (uid, owner, session); its states and their
// changes are drawn in slab.go. A request opens its uid, which ends all records of the uid that
// have lapsed, works on what is left, and closes it, which tells of the net change.
//
// # Invariants
//
//   - No two committed routes of a uid conflict, whatever arrived, in whatever order, how often.
//   - After an acknowledged unregister its session is never visible again: the tombstone, and below
//     the settled mark the mark, refuse what was sent before.
//   - An operation counts only with a seq above all that its identity has shown. The retry of the
//     latest one, with the same seq, gets the same answer, the token included.
//   - A refresh keeps its order: no re-registration and no sync displaces a later login.
//   - What is visible is a function of the records and the time. Passes only free what has lapsed
//     and tell of it, a bounded number a call; no operation walks over all records.
//   - A touch never creates, a sync never displaces a pending login, Remove takes only what still
//     has the seq that was looked up.
//   - An event gets its stamp when it is told. An offline is told a grace after the last route went,
//     or not at all: when the user is back in time, what went is told as removed, then what came as
//     added. Only an offline says that nothing is left.
//   - Strings are copied: what is decoded shares the memory of its message.
//
// # Why the odd rules
//
// Each answers a counter-example of the SPIN model or a measured failure. A tombstone also for an
// unknown session: its register may come later. A floor after expiry: a collected tombstone that
// forgets its seq lets a late register resurrect the session. A superseded record that no seq and no
// settled mark passes: with a tombstone by seq, a session that was forced out is visible again after
// its own re-registration; it lasts one TTL, in which its gateway has heard of it or closed it. A
// boot never returns: else its seqs would have to be remembered for ever. Conflicts are computed
// again at commit: a sync may have brought one that nobody kicked. The time that forces an end is
// kept on the route: a client that redials would start it anew each time, and be locked out.
//
// # Failures
//
//	what happens                           what the directory does
//	---------------------------------------------------------------------------------------------
//	an answer is lost, the request repeats the same answer, nothing done twice
//	requests arrive late or out of order   old_seq, by record, floor, tombstone or settled mark
//	an owner does not answer a kick        after 2 s the commit may force it; superseded record
//	a gateway boot is gone, or restarted   its routes count for nothing at once; freed in passes
//	a login is abandoned                   its pending record dies at its deadline, 5 s at the most
//	a route is not touched                 gone at its TTL; an event within two seconds of a pass
//	two clients fight for one device       damped: the wait doubles to 30 s
//	a gateway's settled mark stands still  its tombstones stay until it moves or the boot is gone
//	a gateway falls silent here            the same, bounded: see Memory
//	more than 4,096 users go in a grace    their offlines are told at once
//	this authority is succeeded            all is lost with it; gateways sync to the successor
//
// # Memory
//
// Records stand in pages without pointers but one to their text; both indexes are open-addressed
// tables of numbers. Measured by TestMemoryPerRoute: 162 bytes a route with 19 bytes of uid and
// device, at 1,000,000 routes over 256 directories. Freed records are used again; pages and tables
// never shrink, so that a directory stays as large as its largest hour.
//
// A gateway's settled mark comes with its messages only. Where it sends this slot no more of them, its
// tombstones and floors from the mark on stay until it does, or its boot is gone: of sessions that ended
// while its oldest open operation at the last message was open, two TTLs at the most, and of routes
// that expired after it. They take the place of the routes that they were, and the next message, of
// whatever kind, frees them all, in passes. Time alone must not: no time is long enough for a register
// that comes late, while the mark refuses it for ever.
package directory
