/* The steps of the world. Each is taken as a whole, at any time at which its condition holds; what it
 * prints is the story of a counter-example. */

/* ---- the slot's key and its holders: package authority/lease, authority/proof.go, handover.go, reclaim.go ---- */

inline acquire() {      /* the key names a new tenure */
  count=count+1; top=top+1; cur=count; rank[cur]=top;
  if :: IS(clock) -> trusted=trusted|BIT(cur); link[cur]=1; keyLink[cur]=1 :: else fi;
  for (i_ : 1 .. NT) { if :: i_<cur && rank[i_]==top -> REACHED(goal_reused) :: else fi }
}
#define ACQUIRE :: d_step { count<TENURES && (cur==0 || !IS(clock) || HAS(dead,cur)) -> \
  acquire(); printf("tenure %d takes the slot at revision %d\n", cur, top); DONE }
#define LOSE_TAIL :: d_step { IS(loss) && !lostTail && cur>1 -> \
  lostTail=true; cur=cur-1; top=rank[cur]; printf("the log loses its tail: the key names tenure %d again\n", cur) }
#define TAKE_TWICE :: d_step { IS(fence_twice) && lostTail && cur<count && rank[count]==top+1 -> \
  cur=count; top=rank[cur]; orders[cur]=0; ended=ended&~BIT(cur); \
  for (i_ : 0 .. NS-1) { state[OF(cur,i_)]=VACANT; seq[OF(cur,i_)]=0; order[OF(cur,i_)]=0; named[OF(cur,i_)]=0; mark[OF(cur,i_)]=0 } \
  printf("the boot of tenure %d takes the slot at the same revision again, its directory empty\n", cur); DONE }
#define RECLAIM(g,t) :: d_step { IS(loss) && view[g]==t && high[g]>rank[t] && !HAS(ended,t) -> \
  ended=ended|BIT(t); printf("tenure %d is told of fence %d and ends\n", t, high[g]); \
  if \
  :: cur==t && count<TENURES -> \
     if :: high[g]>top -> top=high[g] :: else fi; \
     acquire(); printf("its boot takes the slot at revision %d\n", top); REACHED(goal_reclaimed) \
  :: else \
  fi; DONE }
#define SUSPICION(t) :: d_step { HAS(trusted,t) -> \
  trusted=trusted&~BIT(t); printf("the trust of tenure %d runs out\n", t) }
#define CUT(t) :: d_step { IS(proof) && link[t]==1 -> \
  trusted=trusted&~BIT(t); cutLink[t]=1; link[t]=2; printf("the connection of tenure %d ends, it dials another\n", t) }
#define RENEW(t) :: d_step { IS(proof) && link[t]!=0 && !HAS(trusted,t) && (!HAS(dead,t) || IS(renewal_blind)) -> \
  trusted=trusted|BIT(t); keyLink[t]=link[t]; printf("tenure %d renews its lease\n", t) }
#define BURY(t) :: d_step { IS(clock) && link[t]!=0 && !HAS(dead,t) && !HAS(trusted,t) -> \
  dead=dead|BIT(t); printf("the lease of tenure %d has stood still: dead\n", t) }
#define SUCCEED(t) :: d_step { cutLink[t]!=0 && !HAS(dead,t) && (keyLink[t]==cutLink[t] || IS(stale_event)) -> \
  dead=dead|BIT(t); printf("the connection of tenure %d has ended: dead\n", t) }
#define HANDING(t) :: d_step { IS(handover) && HAS(trusted,t) && cur==t && !HAS(handing,t) -> \
  sent=sent|BIT(t); if :: IS(handover_open) -> skip :: else -> handing=handing|BIT(t) fi; \
  printf("tenure %d writes a successor into the key\n", t) }
#define HAND_OVER(t) :: d_step { HAS(sent,t) && cur==t && count<TENURES -> \
  acquire(); printf("the key names tenure %d, the successor of %d\n", cur, t); DONE }
#define REWRITE(t) :: d_step { HAS(handing,t) && HAS(trusted,t) && cur==t && count<TENURES -> \
  ended=ended|BIT(t); acquire(); printf("tenure %d has no answer to its hand-over, its boot takes the slot at revision %d\n", t, top); \
  REACHED(goal_rewritten); DONE }
#define FORGET(t) :: d_step { IS(handing_forgotten) && HAS(handing,t) && cur==t -> \
  handing=handing&~BIT(t); printf("tenure %d reads that the key names it still, and goes on\n", t) }

/* ---- gateways: package gateway, activate.go, conflict.go, kick.go, unregister.go, sync.go, life.go ---- */

/* A register, or a sync of one session. The key is read before (fresh), or what was heard of it will do. */
#define TELL(s,fresh) :: d_step { s<SESSIONS && at[s]!=CLOSED && drawn[GATEWAY(s)]<DRAWS && \
  (fresh -> cur!=0 && view[GATEWAY(s)]!=cur : view[GATEWAY(s)]!=0 && rank[view[GATEWAY(s)]]>=high[GATEWAY(s)]) -> \
  s_=s; g_=GATEWAY(s); \
  if :: fresh -> hearKey(cur) :: else fi; \
  if \
  :: rank[view[g_]]<high[g_] -> skip \
  :: else -> \
     if \
     :: at[s]==ACTIVE -> tell(SYNC); printf("session %d: sync, seq %d, to tenure %d\n", s, drawn[g_], view[g_]) \
     :: else -> at[s]=LOGIN; tell(REGISTER); printf("session %d: register, seq %d, to tenure %d\n", s, drawn[g_], view[g_]) \
     fi \
  fi; DONE }
#define HEAR_REGISTER(o) :: d_step { kind[o]==REGISTER && ok[o]!=0 && at[who[o]]==LOGIN && latest[who[o]]==o%NQ+1 && \
  (rank[to[o]]>=high[o/NQ] || IS(active_blind)) -> \
  s_=who[o]; at[s_]=ACTIVE; held[s_]=ok[o]; told[s_]=to[o]; close(s_,o%NQ+1); \
  printf("session %d is active by tenure %d\n", s_, to[o]); DONE }
#define HEAR_SYNC(o) :: d_step { kind[o]==SYNC && HAS(arrived,o) && at[who[o]]==ACTIVE && latest[who[o]]==o%NQ+1 && \
  told[who[o]]!=to[o] && rank[to[o]]>=high[o/NQ] && !FORMER(o/NQ,o%NQ+1) && \
  state[OF(to[o],who[o])]==COMMITTED && seq[OF(to[o],who[o])]==o%NQ+1 -> \
  s_=who[o]; told[s_]=to[o]; close(s_,o%NQ+1); \
  if :: HAS(reborn,o/NQ) -> REACHED(goal_reborn) :: else fi; \
  printf("session %d is known to tenure %d\n", s_, to[o]); DONE }
#define SEND_COMMIT(o) :: d_step { HAS(conflict,o) && at[who[o]]==LOGIN && latest[who[o]]==o%NQ+1 && rank[to[o]]>=high[o/NQ] && \
  ((named[OF(to[o],who[o])] & ~kicked[to[o]])==0 || IS(force)) && \
  (!HAS(commit,o) || (named[OF(to[o],who[o])] & ~(saysAnswered[o]|saysForced[o]))!=0) -> \
  s_=who[o]; commit=commit|BIT(o); close(s_,o%NQ+1); \
  saysAnswered[o]=saysAnswered[o]|(named[OF(to[o],s_)] & kicked[to[o]]); \
  saysForced[o]=saysForced[o]|(named[OF(to[o],s_)] & ~kicked[to[o]]); \
  printf("session %d: commit to tenure %d; forced: %d\n", s_, to[o], saysForced[o]!=0); DONE }
#define KICK(v,t) :: d_step { HAS(kicks[t],v) && !HAS(kicked[t],v) && (rank[t]>=high[GATEWAY(v)] || IS(stale_kick)) -> \
  s_=v; g_=GATEWAY(v); kicked[t]=kicked[t]|BIT(v); sealed=sealed|BIT(v); \
  if :: rank[t]>high[g_] -> high[g_]=rank[t] :: else fi; \
  printf("a kick of session %d by tenure %d is answered\n", v, t); \
  if \
  :: at[v]==LOGIN || at[v]==ACTIVE -> \
     MUST(rank[t]>=rank[told[v]], "a session is ended by a verdict older than its login\n"); \
     if :: IS(answer_before_seal) -> unsealed=unsealed|BIT(v) :: else -> leave() fi \
  :: else \
  fi; DONE }
#define SEAL(s) :: d_step { HAS(unsealed,s) && (at[s]==LOGIN || at[s]==ACTIVE) -> \
  s_=s; g_=GATEWAY(s); leave(); printf("session %d closes, its kick was answered before\n", s); DONE }
#define HEAR_SUPERSEDED(s,t) :: d_step { state[OF(t,s)]==SUPERSEDED && (at[s]==LOGIN || at[s]==ACTIVE) && \
  !HAS(ended,t) && rank[t]>=high[GATEWAY(s)] -> \
  s_=s; g_=GATEWAY(s); leave(); printf("session %d hears from tenure %d that it was put out\n", s, t); DONE }
#define LEAVE(s) :: d_step { at[s]==LOGIN || at[s]==ACTIVE -> \
  s_=s; g_=GATEWAY(s); leave(); printf("session %d leaves\n", s); DONE }
#define SETTLE(s) :: d_step { at[s]==CLOSED && home[s]!=0 && !HAS(bye,s) && cur!=0 && cur!=home[s] && rank[cur]>=rank[home[s]] && \
  (rank[cur]>rank[home[s]] || !IS(no_boot)) -> \
  s_=s; g_=GATEWAY(s); t_=cur; printf("the end of session %d is settled: the key names tenure %d\n", s, cur); \
  hearKey(cur); close(s,NQ); byeNow(); REACHED(goal_settled); DONE }
#define REBORN(g,crash) :: d_step { IS(lives) && !HAS(reborn,g) && drawn[g]!=0 -> \
  g_=g; rebirth(crash); printf("gateway %d is under another boot; crashed: %d\n", g, crash); DONE }

/* ---- what comes to an authority: authority/serve.go; the directory's own time: expire.go, owner.go ---- */

#define TO_ITS_TARGET(o) :: d_step { kind[o]!=0 && !HAS(ended,to[o]) -> o_=o; t_=to[o] }
#define ASTRAY(o,t) :: d_step { kind[o]!=0 && t!=to[o] && t<=count && !HAS(ended,t) && ( \
  (IS(no_fence) && kind[o]==REGISTER) || (IS(no_boot) && rank[t]==rank[to[o]]) || (IS(ack_of_any) && kind[o]==UNREGISTER)) -> \
  o_=o; t_=t }
#define ARRIVE d_step { g_=o_/NQ; q_=o_%NQ+1; s_=who[o_]; printf("seq %d of gateway %d comes to tenure %d\n", q_, g_, t_); arrive(); DONE }
#define COMMIT_TO_ITS_TARGET(o) :: d_step { HAS(commit,o) && !HAS(ended,to[o]) && (!SUSPECT(to[o]) || IS(suspect_commits)) && \
  !(FORMER(o/NQ,o%NQ+1) && HAS(gone[to[o]],o/NQ)) -> o_=o; t_=to[o] }
#define ARRIVE_COMMIT d_step { g_=o_/NQ; q_=o_%NQ+1; s_=who[o_]; \
  printf("the commit of session %d comes to tenure %d\n", s_, t_); commitNow(); DONE }
#define EXPIRE(s,t) :: d_step { IS(expiry) && (state[OF(t,s)]==PENDING || state[OF(t,s)]==COMMITTED || \
  (state[OF(t,s)]==TOMBSTONE && IS(tombstone_expires))) -> \
  t_=t; s_=s; g_=GATEWAY(s); \
  if :: STATE==TOMBSTONE -> STATE=VACANT; SEQ=0 :: else -> end(FLOOR) fi; \
  printf("session %d expires at tenure %d\n", s, t); DONE }
#define MARK(g,t) :: d_step { IS(marks) && view[g]==t && !HAS(ended,t) && !HAS(reborn,g) -> \
  g_=g; t_=t; settledMark(); \
  if \
  :: q_>mark[OF(t_,g_)] -> \
     mark[OF(t_,g_)]=q_; printf("tenure %d hears the mark %d of gateway %d\n", t, q_, g); \
     do :: s_<NS -> if :: GATEWAY(s_)==g -> forget() :: else fi; s_=s_+1 :: else -> break od \
  :: else \
  fi; DONE }
#define TOUCH(s,t) :: d_step { IS(touch_creates) && told[s]==t && state[OF(t,s)]!=COMMITTED -> \
  t_=t; s_=s; g_=GATEWAY(s); printf("a touch of session %d comes to tenure %d\n", s, t); stand(); ORDER=held[s]; DONE }
#define GONE(g,t) :: d_step { HAS(reborn,g) && !HAS(gone[t],g) && t<=count -> \
  g_=g; t_=t; lose(); printf("tenure %d knows that the first boot of gateway %d is gone\n", t, g); DONE }

/* ---- rebuild: authority/tenure.go, gateway/sync.go, since.go ---- */

#define LIST(t) :: d_step { IS(rebuild) && t<=count && !HAS(listed,t) -> \
  listed=listed|BIT(t); printf("tenure %d reads which gateways live\n", t); \
  for (i_ : 0 .. NS-1) { if :: i_<SESSIONS && since[i_]<rank[t] && !HAS(synced[t],i_) -> awaited[t]=awaited[t]|BIT(i_) :: else fi } DONE }
#define WHOLE_SYNC(g) :: d_step { IS(rebuild) && g<SESSIONS && cur!=0 && chunkTo[g]!=cur && drawn[g]<NQ-NS -> \
  g_=g; s_=g; hearKey(cur); chunkTo[g]=cur; chunk[g]=0; \
  if :: at[g]==ACTIVE && told[g]!=cur -> tell(SYNC); chunk[g]=BIT(o_) :: else fi; \
  printf("gateway %d: whole sync to tenure %d, sessions: %d\n", g, cur, chunk[g]!=0); DONE }
#define LAST_CHUNK(g) :: d_step { chunkTo[g]!=0 && (chunk[g] & ~arrived)==0 && !HAS(synced[chunkTo[g]],g) -> \
  synced[chunkTo[g]]=synced[chunkTo[g]]|BIT(g); awaited[chunkTo[g]]=awaited[chunkTo[g]]&~BIT(g); \
  printf("the last chunk of gateway %d has come to tenure %d\n", g, chunkTo[g]) }
#define ALONE(g) (g<SESSIONS && cur!=0 && at[g]!=LOGIN && at[g]!=ACTIVE && !HAS(reborn,g))
#define SINCE(g) :: d_step { IS(rebuild) && !IS(since_late) && ALONE(g) && since[g]!=rank[cur] -> \
  g_=g; hearKey(cur); since[g]=rank[cur]; printf("the key of gateway %d says: no session at fence %d\n", g, rank[cur]); DONE }
#define OWES_NOTHING(g,t) :: d_step { HAS(awaited[t],g) && since[g]>=rank[t] -> \
  awaited[t]=awaited[t]&~BIT(g); printf("tenure %d awaits gateway %d no longer, by its key\n", t, g) }
#define COUNT(g) :: d_step { IS(since_late) && ALONE(g) -> \
  counted=counted|BIT(g); printf("gateway %d counts its sessions: none\n", g) }
#define READ(g) :: d_step { HAS(counted,g) && cur!=0 -> \
  g_=g; counted=counted&~BIT(g); hearKey(cur); since[g]=rank[cur]; \
  printf("the key of gateway %d says: no session at fence %d\n", g, rank[cur]); DONE }
#define SAY_OFFLINE(t) :: d_step { IS(rebuild) && HAS(trusted,t) && !HAS(handing,t) && \
  ((HAS(listed,t) && awaited[t]==0) || IS(offline_in_rebuild)) && state[OF(t,0)]!=COMMITTED && state[OF(t,1)]!=COMMITTED -> \
  printf("a look-up at tenure %d says offline\n", t); \
  for (i_ : 0 .. NS-1) { MUST(at[i_]!=ACTIVE || HAS(putOut[t],i_), "it says offline of a session that is active\n") } \
  if :: t>1 -> REACHED(goal_offline) :: else fi; DONE }

/* ---- look-up and push: package delivery, gateway/push.go ---- */

#define LOOK_UP(t) :: d_step { IS(pushes) && t<=count && !HAS(ended,t) && rank[t]>=reader -> \
  reader=rank[t]; printf("a look-up at tenure %d\n", t); \
  for (i_ : 0 .. NS-1) { if :: state[OF(t,i_)]==COMMITTED -> pushes=pushes|BIT(i_) :: else fi } DONE }
#define PUSH(s) :: d_step { HAS(pushes,s) -> \
  printf("a push comes to session %d\n", s); \
  MUST(at[s]!=ACTIVE || !HAS(sealed,s), "it is written after the session's kick was answered\n"); \
  for (i_ : 0 .. NS-1) { \
    MUST(!IS(push_by_node) || i_==s || GATEWAY(i_)!=GATEWAY(s) || !HAS(reborn,GATEWAY(s)) || at[i_]!=ACTIVE, \
      "it is written to another session under the same number\n") } DONE }
