// Package lease keeps who lives and who owns what: the bucket "presence", each process's lease in
// it, and what every process has heard of it. It decides nothing about users: it says which boot
// of which node lives, and which of them a slot's key names.
//
// Who is authoritative for what: the stream's leader for every key, by compare-and-swap; a key's
// holder for its own life, until others end it by the same; a View for nothing. What a View says
// is a hint to act on, and a write at the revision it gave decides.
//
//	            the bucket: one stream, one message a key, so its revisions order everything
//	  config | authority.<node> | gateway.<node> | slot.<n> (its revision is the slot's fence)
//	     ^  compare-and-swap, leader reads        | republished changes: presence.changed.>
//	     |                                        v
//	+----+---------------------+         +--------------------------+
//	| Bucket     swap, read,   |-------->| View   Run: notices,     |---> Subscribe(Change)
//	|   Claim, Kill            | listing |   snapshots, rereads     |     Target, Standing,
//	+----^---------------------+         |   -> table (pure), Bury  |     Members, Revision
//	     |                               +--------------------------+
//	+----+---------------------+
//	| Holder     Run: one life |---> work(ctx, me): ctx ends, with its cause, when the life does
//	|   after the other        |
//	+--------------------------+
//
// A life of a process:
//
//	         draw a boot            acknowledged             every lease/10, by compare-and-swap
//	(none) -------------> taking -----------------> living <--------------------------+
//	                        |                          | no answer, in flight,        |
//	   answers: ErrNameTaken|                          | own boot at another revision |
//	                        v                          +------------------------------+
//	                    (process ends)                 |
//	                                                   +- dead, deleted, or another boot below where this
//	                                                   |  one stood (a lost tail): ErrLost --> taking
//	                                                   +- key or bucket missing: work goes on until
//	                                                   |  the bucket stands: ErrBucketLost -> taking
//	                                                   +- another boot: ErrTakenOver -> (process ends)
//	                                                   +- ctx ended: work drains, still renewed;
//	                                                      then state dead --------> (process ends)
//
// # Revisions, and who keeps which
//
//	Revision    of a key: the bucket's number of its last write. A slot's is its fence
//	held        of a key, in a table: up to it, what is heard of that key is old news. 0 where it was in
//	            a tail that the log has lost
//	heard       of a process's key: where it was last seen, below held after a lost tail. A sign of life
//	top         the highest of any key ever seen; bounds what a message may claim (Saw)
//	Highest     of a slot: the highest fence ever seen, by its key or a message; one more where the key
//	            was seen with two owners at it (a lost tail). Never falls
//	seen.head   up to here all changes were heard: View.Revision, and so a gateway's since. It falls
//	            when a log is found to have lost its tail
//
// # Invariants
//
//   - A boot is drawn for one life and never returns: not after it was declared dead, not even
//     when that was before it knew that its key stood.
//   - A renewal is trusted from the start of its attempt, for two thirds of the lease, and only on
//     the connection it went over: when that ends, others may end the lease by the server's event.
//     An authority's key names it, as "<server id>/<client id>", which are the server's own names
//     in that event; the design's counter c would need a dial loop of our own.
//   - A renewal is sent only after a probe, so that a wedged process loses its lease; it is sent
//     once, so that none can follow later than its sender knows.
//   - Whether a write that was not acknowledged was taken is told by the key alone: the server
//     gives the same code for a lost write and for one's own unanswered one.
//   - Others' silence is measured by one's own monotonic clock, and only while the bucket was in
//     reach: a failed read or write, or a lost connection, restarts all timers at the next success.
//   - Of one key a View never goes back, except where a listing proves that the bucket did: it was
//     read at or after the revision held, and shows less; or the stream is another; or the log was found
//     to have lost its tail, and what is held was in it: then any news of the key counts, so that the dead
//     can be ended, and slots claimed, where their keys are now.
//   - The highest fence seen of a slot never falls, and a bucket made anew begins above all. A message
//     raises it by MostAhead above what the keys have shown, no more, but in a young bucket.
//   - A fence has one owner: where a log that has lost its tail gives it to a second one, it counts as
//     passed for whoever has seen the first, and so nobody holds the slot at it.
//   - A boot that was not heard of is Unseen, never Gone: it may be newer than what was heard.
//   - Names do not pile up: the key of a process that is long dead is purged, which leaves no marker, and
//     a member is forgotten a lease after its boots were told to be gone for want of a key. Not while a
//     slot's key names it: who owned the slot must stay known to be gone. A boot that has lived and is
//     not Living has ended, whether it is still Gone or Unseen again.
//   - View.Revision is a revision up to which nothing was missed. It falls when a reading ends below
//     what was heard before it, as that of a leader which is none any more does too, or a notice comes
//     with a revision that was told already, which alone proves that the log has lost its tail.
//   - A since of a lost tail never passes for one of the log that grew in its place: a life whose key was
//     found below where it stood says none any more, a view forgets those it has heard there when its
//     Revision falls, and one that is not below its key's own revision counts for nothing.
//
// # Goroutines
//
//	View.Run     its own: the only writer of the table (but for Saw and Claimed); one for snapshots
//	Holder.Run   its own: takes the key, runs work; one a life that renews
//	Bucket       none
//
// # Failures
//
//	renewal lost before or after, delayed   the key is read, and it goes on at the revision found
//	stream leader gone for seconds          retried every 300 ms; nobody's timers run meanwhile
//	JetStream gone for hours                the life goes on, untrusted; nobody can end it either
//	process cut off, declared dead          its late renewal fails; ErrLost, next life
//	process crashed, restarted              three times nobody answers its name: taken over at once
//	name held by a silent process           waited for until its key stood still for a lease
//	bucket deleted, disk lost               authorities make it, first its config; others wait and
//	                                        keep their sockets; then each key, under a new boot
//	settings deleted                        who may make the bucket writes them anew, as it knows them, at
//	                                        its next snapshot; whoever opens it meanwhile, from defaults
//	settings unreadable                     Open fails and says what mends them
//	server takes only small messages        Open returns ErrSmallMessages
//	servers lost acknowledged revisions     the next snapshots lower the view, not the highest fence; a
//	                                        view that was cut off until the log had passed its old end
//	                                        again does not know, but each life does by its own key
//	and a key names who stood there before  a former life, or a process before this one: the life ends,
//	                                        and the next asks whether anybody answers, as the first did
//	view begins or returns after a dead     it has missed the death: a boot that it knew, or that a slot's
//	key was purged                          key names, is Gone when its key has been absent for a lease
//	a writer names a revision himself       the server's own, behind it, counts
//	notice lost, queue full                 the next one shows the gap: a snapshot, at most one a second
//	no consumer to be had (meta leader)     the snapshot is read key by key from the leader
//	consumer on a replica that is behind    its listing ends below the stream's last revision: the same
//	read of a key fails                     the last value stays; the next read waits 50 ms to 1 s
//
// Not here: acting on the server's disconnect events, and deciding when a fence is lifted or the bucket
// emptied (package authority): here is how (Lift, Jump).
package lease
