// Package authority is the worker that holds slots of the directory and answers for them.
//
// It owns: which slots this process holds and under which fence, the serving of their requests, the
// publishing of their events, and the ending of the leases of processes that have fallen silent.
// It does not own what stands in a directory (package directory decides, purely), nor what a lease
// is (package lease). It is a pure responder: it calls nobody while it serves; what it must read
// from the bucket it reads beside the serving loops, and answers "try again" meanwhile.
//
//	 slot.<s>.<fence>.*           authority.<node>.<boot>.*
//	        |                              |
//	  +-----v------+  slot % loops   +-----v------+
//	  | loop queue | ...             | asks queue |     bounded: 4,096; what does not fit is dropped
//	  +-----+------+                 +-----+------+     and asked again by its requester
//	        | serve.go                     | ask.go
//	        |      check target, lease, sender
//	        +---------------+--------------+
//	                  +-----v------+
//	                  | tenure     |  one a slot and fence, one mutex: directory, rebuild
//	                  +-----+------+
//	                        | outbox (bounded, in stamp order)
//	                        v
//	                   event.<slot>.<token> --acknowledged, repeated--> stream presence_events, where
//	                                                                    the setting events is on
//
//	bucket --notices--> lease.View --wake--> slots.go: follow, claim, balance, reap, upkeep
//	sys.disconnect -----------------------> proof.go: end the lease of a worker that has lost its
//	                                        connection and does not come back in 100 ms
//
// # A life
//
// [lease.Holder] draws a boot, takes the key authority.<node> and calls serve under a context that
// ends with the lease. All goroutines of a life end with it, and all tenures with them: the next
// life has another boot, and begins with empty directories.
//
// # How a slot comes to a worker, and goes
//
//	        claim: by rank, k seconds after nobody owns it        its key names us: taken up
//	unowned ------------------------------------------> tenure <------------------------ handed over
//	                                                      |
//	  hand-over: the successor is written into the key, eight at a time; shares are evened out in a
//	             membership that stood still, and a worker that stops hands all over
//	  moved:     the key names another owner or another fence
//	  overtaken: a higher fence was seen; the key is written again until it is above (reclaim.go)
//	  life over: lease lost
//	                                                      |
//	                                                      v
//	                        ended: the directory is deleted at once; for 5 s who asks is told the new owner
//
// # Goroutines of a life
//
//	loop.run       max(2, GOMAXPROCS) for slot requests (a slot always goes to the same one, so that
//	               its requests stay in order), as many for look-ups
//	publish        events, their way into the stream and, of an offline, that of its time into the
//	               bucket last_seen (recorder.go; journal.go decides, purely)
//	keepSlots      the only one that takes slots up
//	heedDisconnects, and a short-lived one an event that it heeds
//	handOver       one at a time: slots on their way to another worker
//	claims         short-lived, one a slot and 64 at the most; keepSlots takes their answers
//	beside         short-lived, one at a time of each name, so that keepSlots waits for no bucket: the
//	               read of a key, the lifting of a slot's fence, the list of gateways, the reaping
//
// # Invariants
//
//   - A slot is held only at the fence that this process wrote, or found itself named at.
//   - Every request is compared with the tenure's target by [schema.Target.Differs] after it was
//     taken from the queue, and the lease is checked then too.
//   - A login is committed only inside the trust of the lease: 2/3 of it, from the start of the
//     last acknowledged attempt, and over the connection of that attempt. Otherwise look-ups,
//     touches, unregister and sync are answered, marked suspect, as long as no other owner is
//     known: where nobody can write, nobody can succeed.
//   - From before a successor is written into a slot's key nothing is committed there any more, and
//     every answer is marked suspect.
//   - A fence of a slot is held at most once, by one worker, and none below the highest seen.
//   - A uid without routes is unknown, not offline, until every gateway that may have sessions of
//     the slot has sent its last chunk or is gone.
//   - Nothing is answered on a subject of the mesh or of the server: who asks could write there by it.
//   - Events leave in the order of their stamps; none while the slot is being rebuilt. An offline
//     waits for a grace, whatever made the last session go: a kicked user is as free to return as one
//     who has lost his network. Look-ups, conflicts and routing never wait.
//
// # Failures
//
//	process killed            by proof where disconnect events are imported, 100 ms after its
//	                          connection has ended; else when its key has stood still for a lease: a
//	                          survivor writes state=dead, then claims its slots by rank; the gateways
//	                          sync them unasked
//	connection cut            it redials at once and renews its key over the new connection, suspect
//	                          until that is acknowledged; in time, nothing moves
//	process stops             state=leaving, its slots are handed over, then the lease is resigned; a
//	                          successor that answers nothing in a second gets no more of them
//	                          (what is handed to the leaver in that second is unknown until it is over)
//	JetStream out of reach    suspect; no directory is lost, no lease ended: failed reads and writes
//	                          of the bucket restart everybody's timers
//	a server lost writes      who has seen a higher fence says so; the slot's fence is lifted above, by
//	                          writes; by one purge of the bucket, after which all write their keys anew,
//	                          where it is more than 100,000 ahead: an old copy of a disk was restored
//	a message once told of a  its slot is not served: said once in the log, counted once in
//	  fence far above an old  corrupt_fences_total, named corrupt in presence.slots; deleted, the bucket
//	  bucket                  forms anew above all revisions
//	restarted at once         it takes its own key over (nobody answers for the old boot), so its
//	                          slots are unowned at once
//	lease lost                all tenures are dropped, the next life begins
//	slot key names another    the tenure is dropped, its requesters get mismatch and the new owner
//	slot key deleted, or      the tenure is dropped once the bucket has been read after its claim, and
//	  older than its tenure   the slot claimed again: nobody else need ever do it
//	hand-over unanswered      the slot is suspect until the key has another revision: the successor's,
//	                          or ours, which is written over it as soon as the bucket answers
//	claim unanswered          for 5 s, and no other slot waits for it: found by a look at the view, the key
//	                          names us, we take it up; else claimed again
//	claim answered late       judged again: a slot whose key has been written since is whose it says
//	the bucket is young       gateways have yet to write their keys: who has no route in a slot claimed
//	                          there is unknown for 5 s; in one handed over, until the bucket has been
//	                          known here for as long
//	gateway under a new boot  it may have taken over the sockets of the one before, whose routes count
//	                          for nothing: who has no route is unknown until it has synced the slot
//	gateway killed            its routes count for nothing once its key says dead or another boot
//	a wedged loop             takes no probe: no renewal is sent, the lease ends. The claim loop is not
//	                          probed, since it may be long at work: wedged, it would serve on what is held
//	owner changes in a grace  the offlines held back are gone; the next owner's rebuilt has watchers
//	                          look up again
//	the stream of events      who listens hears each event at once all the same. What it has not
//	  takes nothing           acknowledged is repeated for a minute, at most 65,536 events, one at a time
//	                          until it takes one; a user's stay in order, the id <slot>.<fence>.<k> keeps
//	                          a repeated one from standing there twice. What is lost to it is counted,
//	                          and rebuilt is told there on its slot, however long that takes. What was
//	                          on its way when a life ends is lost too: the next owner's rebuilt tells
//	the bucket last_seen      the same, but what is lost is only counted. One repeated after the slot
//	  takes nothing           has changed its owner can put an older time over a newer one
//	outbox full               events are dropped and counted; the slot's watchers are told rebuilt
//	connection lost           events on their way are lost, and those that come meanwhile dropped; over
//	                          the next one rebuilt is told on every slot held
package authority
