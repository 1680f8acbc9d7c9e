// Package client finds the authority that owns a slot and asks it. Gateways and delivery stand on
// it. It owns the lanes to the authorities, what is noted of each slot's fence, and nothing that
// outlives a request: who owns what is the view's (package lease), what to do about a refusal is
// the caller's.
//
//	Lookup(uids) --> slots' owners, one snapshot --> an ask a process --> lane of the process --> authority...lookup
//	                        ^                                                  |
//	                        '---- stale groups only: key read again <----------'  answers, group by group
//
//	Register, Commit, Unregister --> lane of (target, sender, operation) --> slot.<slot>.<fence>...
//	Touch, Sync, Remove, Explain, Status, Kick, Push -----------------------> one request each
//
// Watched is what gateway and delivery know of a user whom somebody watches: pure, a look-up moved on
// by events.
//
// A lane has one request in flight. Who finds it idle makes the request himself, so an idle lane
// costs and delays nothing; what comes meanwhile goes out together in the next request, carried by
// a goroutine that ends when nothing waits.
//
// Invariants:
//   - Every operation is one try at one target, with its time-out; only look-ups, which change
//     nothing, are asked again at another owner. Nothing that may have been carried out is repeated
//     here.
//   - Every request carries the highest fence known of its slot at the moment it is sent. An answer
//     counts only if it comes from the very target asked and no higher fence is known by then.
//   - A target that the key no longer names and that a higher fence has overtaken is not asked.
//   - Look-ups align with what was asked, and what one slot's owner does spoils no other slot's
//     answer. Not known is unknown, never offline.
//   - ErrGone is proof, a time-out never is.
//   - What one caller brings that cannot be written spoils nobody who waits with him.
//
// Goroutines: those of Run, which waits for all of them: one a busy lane, from the second request
// on; one a read of a slot's key; one a push whose acknowledgements follow, in a second message to
// an inbox of its own, until half a second after its wait. None a slot, and none while nothing happens.
//
//	failure                         what happens
//	no responders, fence new here   asked again after 5, 10, 20, 40 ms: interest travels
//	no responders, mismatch, stale  the slot's key is read from the leader, one read in flight, not again
//	                                for 50 ms doubling to 1 s; a look-up waits for it and follows, the others
//	                                return the error and their caller's next Target sees it
//	no answer                       ErrTimeout; a look-up says unreachable
//	answer cut at 512 KiB           the rest is asked for at once
//	too many wait in one lane       ErrFull; a look-up says unreachable
//	no connection                   ErrDisconnected at once: nothing was sent
//	bucket not read yet             calls wait for it; a look-up for 500 ms
//	Run has ended                   ErrStopped; what is under way ends within its try
package client
