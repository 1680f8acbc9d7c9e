// Package swarm runs the whole mesh over and over, in virtual time, under faults drawn from a seed,
// and holds all that was said in a run against what the mesh promises.
//
//	seed --> plan: mesh, people, faults, each at its moment
//	           |
//	           v          one bubble: authorities, gateways, delivery, server, people, who asks
//	         play ------> trace: what processes publish --+
//	           |          visits: what clients see        +--> judge: the invariants
//	           v          looks: what look-ups say        |
//	         settle: all well within the bounds ----------+
//
// The invariants:
//
//  1. Under one fence a directory never holds two committed conflicting routes: by every answer to a
//     look-up that leaves an authority.
//  2. A frame is queued only to the session that it names, and never after that session's kick was
//     acknowledged: by what clients get, and by what gateways say to pushes sent after that.
//  3. After an acknowledged unregister the session is never again visible: by every answer to a later
//     look-up under that fence or a higher one, and by every look-up that delivery believes.
//  4. A re-registration never displaces a later login: who is put out by a sync or a kick has met a
//     session in conflict with it that registered after it, or has a higher order; or, where the
//     policy keeps the first, an earlier one that was told late.
//  5. No look-up says offline for a session that was active, on a gateway whose key stands, through
//     the whole look-up: by its client's word, whose network was not silent at the end of it.
//  6. When faults stop, all live sessions are visible and no dead one, within the bounds of
//     settle_test.go; a client that tries gets in; and so it stays.
//  7. No login is committed by an owner after a successor has answered for the slot.
//  8. Who was put out without his gateway's word is not visible again in that directory, for as long as it
//     has to remember him; and his session ends when his gateway is told, once the faults have stopped.
//
// Beside faults that meet by chance, a plan has scenes (scene_test.go): several at once that ask for one
// rule which by chance is hardly ever needed.
//
//	echo       what an authority is told of a session comes twice, or late, when the session has left
//	sever      nobody answers for a gateway, which lives; another login puts out one of its sessions
//	depose     an authority without the bucket, and a gateway without news: it is asked to log people in
//	hand       people log in while slots are handed over and answers are late
//	farewell   an unregister is lost right before the faults stop
//	forget     a slot's key is deleted, and only its owner can claim it again
//
// A run is judged by what was recorded, after it, so that judging does not disturb it. Each judgement
// errs on the side of the mesh: a moment before which something was so is taken from a message that
// left afterwards, one after which it was so from one that left before, and what nobody can know from
// outside (a session whose client's network is silent; a key that somebody has tried to end; a session
// that lived a whole time to live without an acknowledged sign of life) is passed over. So is a look-up
// that says itself that it is suspect, by an owner whose successor has answered: news has come neither to
// him nor to who asks; and 7 for a lease after the bucket was lost, which alone tells whose a slot is.
//
// What a seed fixes: the mesh and its settings, the people, the moment and kind of every fault, who
// asks when, and the choices of each person, as far as they are asked for in the same order. What it
// does not: boot ids, and with them nothing that is decided by rank; the jitter of clients that
// reconnect and of gateways that drain; and which goroutine runs first where several may. A seed that
// has failed once fails again mostly, not always: run it a few times.
//
//	make swarm SEEDS=200      seeds 1 to 200, side by side on all cores; FROM=n begins at n
//	make swarm SEED=21        that one, with the stories of the users that went wrong
//
// CI plays 200 (136 s on two cores), and 20 under the race detector.
//
// # What the judges catch
//
// Faults put into the product, one at a time, and seeds 1, 2, ... played until one fails. The number is
// that of the seed and of the invariant by which it failed; the race of goroutines moves the first a
// little. These were found before there were scenes:
//
//	commit takes nothing out                                          1   by 1
//	sync compares no orders                                          17   by 1
//	a kick is acknowledged a second before the session is sealed      3   by 2
//	one unregister in seven is acknowledged, and the route kept       1   by 3
//	of two routes in a sync the earlier login wins                   16   by 4
//	a slot waits for no gateway before it says offline                3   by 5
//	gateways do not sync a slot under a new fence                     1   by 6
//	gateways that are gone keep their routes                          1   by 6
//
// And these by scenes; only seeds whose plan has the scene were played, the number of them in brackets:
//
//	no tombstone is left at unregister         echo       3 (3)   by 3
//	a lease is trusted for ever                depose     5 (2)   by 7
//	a deposed tenure is kept                   forget    51 (4)   by 6
//	an unregister is not repeated              farewell  20 (6)   by 6
//	a superseded touch is ignored              sever     57 (7)   by 8 and 6
//	the settled mark drops superseded records  sever     57 (19)  by 8
//
// Why the last four want so much: a deposed tenure goes by a second rule too, as soon as its successor's
// key is heard of, and who asks it names the fence or refuses the answer; only where the key names nobody,
// and nobody else can claim the slot, does it stay. A session put out by force is also chased with kicks; not
// one whose gateway nobody could reach, and that one hears of it by its touch alone. A record that the
// mark has dropped is made anew by the next sync as long as the winner stands. And a route whose
// unregister was lost goes with its time to live, or with the next message to it.
//
// Not caught, and by what else they are covered:
//
//	look-ups believe overtaken fences           who answers after he was succeeded has lost the trust in
//	                                            his lease, or hands over, and says that he is suspect; and
//	                                            who asks follows the key. TestLookupRefusesLowerFences in
//	                                            authority/client fails
//	a login becomes active under an old fence   the same check stands where the answer is taken (accept),
//	                                            in the same instant but for what runs between the two;
//	                                            and a fence that the key shows is checked beside it.
//	                                            TestFenceOvertaken in package gateway fails
//
// With all three checks of the second removed, 24 seeds with the scene hand did not fail either: the
// moment is met more seldom than that, and the scene has caught nothing so far.
//
// Of faults that nobody put in, seed 167 showed that claims which a lost bucket refuses at once were made
// again without a pause.
//
// Goroutines: those of package mesh, one a person, two that ask. All end with their run.
package swarm
