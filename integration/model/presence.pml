/* The rules by which one slot's authority, the gateways and a sender keep one user's sessions apart, as
 * the code has them. README.md says which rule of the code each part stands for, what each seeded fault
 * is, and where the model ends.
 *
 * Time-free: what the world does (a lease is lost, a gateway dies, a deposed owner does not notice) may
 * happen at any step. The network keeps every message for ever and brings it in any order, any number of
 * times; a message that never comes is a lost one. Only an answer that changes nothing where it is lost
 * is heard, or not, from the state that gave it.
 *
 *   tenure   one owner at one fence, (revision, boot): its number stands for the pair. rank is the
 *            revision alone, which a log that lost its tail hands out twice. A tenure has one directory
 *            and never returns; one that is deposed goes on until it is told.
 *   gateway  one process. Session s is on gateway s, or all are on gateway 0 (together). It has one boot,
 *            and a second one (reborn): gateway 0 alone, the other is its mirror.
 *   op       what a gateway sends under one owner seq: op o is seq o % NQ + 1 of gateway o / NQ
 *
 * What the world may do, the fault and the limits come from the environment, so that one build serves
 * all variants: WITH="clock rebuild since_late" SESSIONS=1 TENURES=2 DRAWS=1 ./pan
 */
#define NS 2    /* sessions of one user, all in each other's way: the same device */
#define NT 3    /* tenures at most */
#define NQ 6    /* ops of a gateway at most */
#define NO (NS*NQ)

/* What the world may do. */
#define WORLD(X) \
  X(together) /* all sessions on one gateway */ \
  X(expiry)   /* routes and pending logins run out at any time */ \
  X(force)    /* a login need not wait for the owners of the routes in its way */ \
  X(marks)    /* requests carry the settled mark */ \
  X(lives)    /* gateway 0 crashes, or its key is ended and it takes another boot */ \
  X(loss)     /* the log of the slot's key loses its tail, once */ \
  X(clock)    /* leases: a holder trusts its own shorter than others wait */ \
  X(proof)    /* with clock: connections end and are dialled anew, and others hear of it */ \
  X(handover) /* with clock: an owner writes its successor into the key */ \
  X(rebuild)  /* with clock: whole syncs, and look-ups that may say offline */ \
  X(pushes)   /* look-ups and the pushes that they lead to */
#define FAULTS(X) \
  X(no_fence) X(no_boot) X(fence_twice) X(ack_of_any) X(commit_at_once) X(commit_blind) X(forced_by_seq) \
  X(no_tombstone) X(tombstone_expires) X(mark_forgets) X(mark_drops_superseded) X(boot_returns) \
  X(touch_creates) X(sync_as_login) X(stale_kick) X(answer_before_seal) X(push_by_node) \
  X(suspect_commits) X(renewal_blind) X(stale_event) X(handover_open) X(handing_forgotten) \
  X(offline_in_rebuild) X(active_blind) X(since_late) X(life_not_awaited)
/* What must be reachable, or a search without an error says nothing. */
#define GOALS(X) \
  X(goal_answered) X(goal_forced) X(goal_beaten) X(goal_yields) X(goal_settled) X(goal_swept) X(goal_reborn) \
  X(goal_reused) X(goal_reclaimed) X(goal_succeeded) X(goal_returned) X(goal_suspect) X(goal_handed) X(goal_rewritten) \
  X(goal_offline)

c_decl {
\#include <stdio.h>
\#include <stdlib.h>
\#include <string.h>
#define VAR(x) int is_##x;
WORLD(VAR) FAULTS(VAR) GOALS(VAR)
#define ROW(x) { #x, &is_##x },
struct { const char *name; int *is; } switches[] = { WORLD(ROW) FAULTS(ROW) GOALS(ROW) };
int sessions, tenures, draws;
int limit(const char *name, int most) {
  const char *e = getenv(name);
  int n = e ? atoi(e) : 0;
  if (n < 1 || n > most) { fprintf(stderr, "presence.pml: %s is %d, not in 1 to %d\n", name, n, most); exit(2); }
  return n;
}
void configure(void) {
  char buf[1024], *w;
  unsigned i, n = sizeof switches / sizeof switches[0];
  sessions = limit("SESSIONS", 2);
  tenures = limit("TENURES", 3);
  draws = limit("DRAWS", 4);
  snprintf(buf, sizeof buf, "%s", getenv("WITH") ? getenv("WITH") : "");
  for (w = strtok(buf, " "); w; w = strtok(NULL, " ")) {
    for (i = 0; i < n && strcmp(switches[i].name, w) != 0; i++) {}
    if (i == n) { fprintf(stderr, "presence.pml: no switch is named %s\n", w); exit(2); }
    *switches[i].is = 1;
  }
}
}
#define IS(x)      c_expr { is_##x }
#define SESSIONS   c_expr { sessions }
#define TENURES    c_expr { tenures }
#define DRAWS      c_expr { draws } /* registers and syncs of a gateway, whole syncs not counted */
#define REACHED(x) assert(!IS(x))
#define MUST(x, else_) if :: (x) -> skip :: else -> printf(else_); assert(false) fi

/* a session at its gateway */
#define OPENING 0
#define LOGIN   1
#define ACTIVE  2
#define CLOSED  3
/* what a directory has of a session */
#define VACANT     0
#define PENDING    1
#define COMMITTED  2
#define TOMBSTONE  3
#define FLOOR      4
#define SUPERSEDED 5
/* ops */
#define REGISTER   1
#define SYNC       2
#define UNREGISTER 3

#define HAS(set,i) (((set) >> (i)) & 1)
#define BIT(i)     (1 << (i))
#define OF(t,s)    ((t)*NS + (s))

/* The slot's key. */
byte cur;                    /* the tenure that it names; 0: none */
byte count;                  /* tenures so far */
byte top;                    /* the latest revision of the log, */
bool lostTail;               /* which has lost some */
byte rank[NT+1];

/* The holder of each tenure; sets are of tenures. */
byte trusted, dead;          /* its lease, as it believes, as the bucket says */
byte handing;                /* it hands over: from now on it commits nothing, and answers as a suspect */
byte sent;                   /* the write of its successor may still come to the key */
byte ended;                  /* it has given the tenure up */
byte listed;                 /* it has read which gateways to await */
byte link[NT+1];             /* the number of its connection to NATS, */
byte keyLink[NT+1];          /* of the one that its key names, */
byte cutLink[NT+1];          /* of the one whose end others have heard of; 0: none */

/* The directory of each tenure. */
byte orders[NT+1];           /* the last one given to a login */
byte state[(NT+1)*NS], seq[(NT+1)*NS], order[(NT+1)*NS];
byte named[(NT+1)*NS];       /* of a pending one: the routes that its token names, */
byte answered[(NT+1)*NS];    /* those of which the owner has said that they are out, */
byte forced[(NT+1)*NS];      /* those that have ended without */
byte mark[(NT+1)*NS];        /* the settled mark of each gateway's boot */
byte gone[NT+1];             /* gateways whose first boot is known to be gone */
byte awaited[NT+1], synced[NT+1]; /* gateways */

/* Gateways. */
byte view[NS];               /* the tenure that the key names, as far as heard */
byte high[NS];               /* the highest fence heard of */
byte drawn[NS];              /* the last owner seq */
byte since[NS];              /* the fence that it knew while it had no session, as its key says */
byte chunkTo[NS];            /* where its whole sync goes, */
short chunk[NS];             /* and the ops of it */
short open;                  /* ops that are open in the ledgers */
byte reborn;                 /* gateways under their second boot, */
byte firstLast[NS];          /* and the last seq of the first */

/* Sessions at their gateway. */
byte at[NS];                 /* OPENING .. CLOSED */
byte home[NS];               /* where the latest register or sync went, */
byte latest[NS];             /* and its seq */
byte told[NS];               /* who has acknowledged one */
byte held[NS];               /* the order of an active one */

/* The network: what was ever sent. */
byte kind[NO], who[NO], to[NO];
byte ok[NO];                 /* a register's answer: its order */
short conflict;              /* registers that were answered with a conflict, */
short commit;                /* whose commit was sent, */
byte saysAnswered[NO];       /* and how it says that the routes in the way have ended */
byte saysForced[NO];
short arrived;               /* syncs that have come to where they went */
byte kicks[NT+1];            /* sessions: a kick by this tenure's verdict was sent, */
byte kicked[NT+1];           /* and answered */
byte pushes;                 /* sessions that a look-up has found, by */
byte reader;                 /* a sender that has heard of this fence */

/* What nobody sees; for the assertions and the faults. */
byte left[NT+1];             /* sessions whose unregister the tenure has taken, */
byte putOut[NT+1];           /* that it has put out without their owner's word */
byte bye;                    /* sessions whose unregister was acknowledged or settled, */
byte byeRank[NS];            /* by this fence */
byte logins, real[NS];       /* the true order of the logins that the owner of the moment committed */
byte sealed;                 /* sessions of which a kick was answered, */
byte unsealed;               /* by answer_before_seal, before they were closed */
byte counted;                /* by since_late: gateways that have seen that they have no session */

byte g_, i_, o_, q_, s_, t_, v_; /* scratch; 0 between two steps */
#define DONE g_=0; i_=0; o_=0; q_=0; s_=0; t_=0; v_=0

#define GATEWAY(s)  (IS(together) -> 0 : (s))
#define SUSPECT(t)  (IS(clock) && (!HAS(trusted,t) || HAS(handing,t)))
#define FORMER(g,q) (HAS(reborn,g) && (q)<=firstLast[g]) /* a seq of the first boot */

#include "gateway.pml"
#include "directory.pml"
#include "steps.pml"

#define EACH(X)     X(0) X(1)
#define THREE(X)    X(1) X(2) X(3)
#define EACH_T(X)   X(0,1) X(1,1) X(0,2) X(1,2) X(0,3) X(1,3)
#define OPS(X)      X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define OPS_T(X,t)  X(0,t) X(1,t) X(2,t) X(3,t) X(4,t) X(5,t) X(6,t) X(7,t) X(8,t) X(9,t) X(10,t) X(11,t)

active proctype World() {
  d_step { c_code { configure(); } }
  do
  ACQUIRE LOSE_TAIL TAKE_TWICE EACH_T(RECLAIM)
  THREE(SUSPICION) THREE(CUT) THREE(RENEW) THREE(BURY) THREE(SUCCEED) THREE(HANDING) THREE(HAND_OVER) THREE(REWRITE) THREE(FORGET)

  TELL(0,true) TELL(1,true) TELL(0,false) TELL(1,false)
  OPS(HEAR_REGISTER) OPS(HEAR_SYNC) OPS(SEND_COMMIT) EACH_T(KICK) EACH(SEAL) EACH_T(HEAR_SUPERSEDED) EACH(LEAVE) EACH(SETTLE)
  REBORN(0,true) REBORN(0,false)

  :: atomic { if OPS(TO_ITS_TARGET) OPS_T(ASTRAY,1) OPS_T(ASTRAY,2) OPS_T(ASTRAY,3) fi; ARRIVE }
  :: atomic { if OPS(COMMIT_TO_ITS_TARGET) fi; ARRIVE_COMMIT }
  EACH_T(EXPIRE) EACH_T(MARK) EACH_T(TOUCH) GONE(0,1) GONE(0,2) GONE(0,3)

  THREE(LIST) EACH(WHOLE_SYNC) EACH(LAST_CHUNK) EACH(SINCE) EACH_T(OWES_NOTHING) EACH(COUNT) EACH(READ) THREE(SAY_OFFLINE)
  THREE(LOOK_UP) EACH(PUSH)
  od
}
