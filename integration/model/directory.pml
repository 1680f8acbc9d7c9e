/* What the directory of tenure t_ does with op o_, seq q_, of session s_ on gateway g_. Its rules stand
 * in package authority/directory, an inline a function: register.go, login.go, commit.go, sync.go,
 * unregister.go, owner.go. */

#define STATE    state[OF(t_,s_)]
#define SEQ      seq[OF(t_,s_)]
#define ORDER    order[OF(t_,s_)]
#define NAMED    named[OF(t_,s_)]
#define ANSWERED answered[OF(t_,s_)]
#define FORCED   forced[OF(t_,s_)]
#define OLD      (q_<mark[OF(t_,g_)] && !IS(mark_forgets)) /* below the settled mark */

inline forget() {       /* what lies below the mark is refused without being remembered */
  if
  :: (STATE==TOMBSTONE || STATE==FLOOR || (STATE==SUPERSEDED && IS(mark_drops_superseded))) && SEQ<mark[OF(t_,g_)] ->
     STATE=VACANT; SEQ=0; REACHED(goal_swept)
  :: else
  fi
}
inline end(how) { STATE=how; ORDER=0; NAMED=0; ANSWERED=0; FORCED=0; forget() }

inline putOutAs(s, how) { /* s leaves by a verdict, not by its owner's word */
  state[OF(t_,s)]=how; order[OF(t_,s)]=0; putOut[t_]=putOut[t_]|BIT(s)
}
inline stand() {        /* s_ becomes visible: what must hold then */
  for (i_ : 0 .. NS-1) { MUST(i_==s_ || state[OF(t_,i_)]!=COMMITTED, "a directory holds two routes in each other's way\n") }
  MUST(!HAS(left[t_],s_), "a session is visible again where its unregister was taken\n");
  MUST(!HAS(bye,s_) || t_!=cur || rank[t_]<byeRank[s_], "a session is visible again after its unregister was acknowledged\n");
  MUST(!HAS(putOut[t_],s_), "a session that was put out is visible again\n");
  STATE=COMMITTED; NAMED=0; ANSWERED=0; FORCED=0
}
inline commitLogin() {
  MUST(!IS(clock) || t_==cur, "a login is committed by who owns the slot no longer\n");
  stand();
  orders[t_]=orders[t_]+1; ORDER=rank[t_]*8+orders[t_]; ok[o_]=ORDER;
  if :: t_==cur -> logins=logins+1; real[s_]=logins :: else -> real[s_]=0 fi;
  if :: IS(clock) && t_>1 -> REACHED(goal_succeeded) :: else fi;
  if :: link[t_]==2 -> REACHED(goal_returned) :: else fi;
  if :: HAS(handing,t_-1) -> REACHED(goal_handed) :: else fi
}
inline inTheWay() {     /* v_ = the committed route that s_ conflicts with; NS: none */
  v_=NS;
  for (i_ : 0 .. NS-1) { if :: i_!=s_ && state[OF(t_,i_)]==COMMITTED -> v_=i_ :: else fi }
}
inline answerConflict() { /* the routes still in the way are named, and their owners are sent a kick */
  inTheWay();
  conflict=conflict|BIT(o_);
  if
  :: v_<NS && !HAS(ANSWERED|FORCED,v_) -> NAMED=NAMED|BIT(v_); kicks[t_]=kicks[t_]|BIT(v_)
  :: else
  fi
}
inline register() {
  if
  :: STATE==SUPERSEDED -> skip                       /* is told so: see HEAR_SUPERSEDED */
  :: STATE==PENDING && q_==SEQ -> answerConflict()   /* a retry: the same token */
  :: STATE==COMMITTED && q_==SEQ -> ok[o_]=ORDER     /* a retry: the same answer */
  :: else ->
     if
     :: q_<=SEQ || OLD -> skip                       /* old_seq */
     :: else ->
        if
        :: STATE==COMMITTED -> SEQ=q_; ok[o_]=ORDER  /* a newer attempt */
        :: else -> admit()
        fi
     fi
  fi
}
inline admit() {
  for (i_ : 0 .. NS-1) { /* the same device: its newer login takes a pending one's place */
    if :: i_!=s_ && state[OF(t_,i_)]==PENDING -> state[OF(t_,i_)]=FLOOR; named[OF(t_,i_)]=0 :: else fi
  }
  SEQ=q_; inTheWay();
  if
  :: v_==NS || IS(commit_at_once) -> commitLogin()
  :: else -> STATE=PENDING; NAMED=0; ANSWERED=0; FORCED=0; answerConflict()
  fi
}
inline commitNow() {    /* the commit of op o_ has come; conflicts are computed again */
  if
  :: STATE==COMMITTED -> ok[o_]=ORDER
  :: STATE==PENDING && SEQ==q_ ->
     ANSWERED=ANSWERED|(saysAnswered[o_]&NAMED);
     FORCED=FORCED|(saysForced[o_]&NAMED);
     inTheWay();
     if
     :: v_==NS || (IS(commit_blind) && !HAS(ANSWERED|FORCED,v_)) -> commitLogin()
     :: v_<NS && HAS(ANSWERED,v_) ->
        state[OF(t_,v_)]=FLOOR; order[OF(t_,v_)]=0; commitLogin(); REACHED(goal_answered)
     :: v_<NS && !HAS(ANSWERED,v_) && HAS(FORCED,v_) ->
        if :: IS(forced_by_seq) -> putOutAs(v_,FLOOR) :: else -> putOutAs(v_,SUPERSEDED) fi;
        commitLogin(); REACHED(goal_forced)
     :: else -> answerConflict()
     fi
  :: else                                            /* dead token, superseded */
  fi
}
inline sync() {
  if
  :: STATE==SUPERSEDED || (STATE!=VACANT && q_<=SEQ) || OLD -> skip
  :: STATE==COMMITTED && q_>SEQ && !OLD -> SEQ=q_
  :: else ->
     end(VACANT); SEQ=q_;
     if :: held[s_]/8==rank[t_] && held[s_]%8>orders[t_] -> orders[t_]=held[s_]%8 :: else fi;
     inTheWay();
     if
     :: v_==NS -> stand(); ORDER=held[s_]
     :: v_<NS && (IS(sync_as_login) || held[s_]>order[OF(t_,v_)] || (held[s_]==order[OF(t_,v_)] && s_>v_)) ->
        MUST(real[s_]==0 || real[s_]>=real[v_] || lostTail, "a sync displaces a later login\n");
        putOutAs(v_,SUPERSEDED); kicks[t_]=kicks[t_]|BIT(v_);
        stand(); ORDER=held[s_]; REACHED(goal_beaten)
     :: else ->
        MUST(real[v_]==0 || real[v_]>=real[s_] || lostTail, "a sync is displaced by an earlier login\n");
        putOutAs(s_,SUPERSEDED); REACHED(goal_yields)
     fi
  fi
}
inline unregister() {
  if
  :: STATE==VACANT && OLD -> skip                    /* of one that was acknowledged before */
  :: STATE==SUPERSEDED && q_<=SEQ -> skip
  :: STATE!=VACANT && STATE!=SUPERSEDED && (q_<SEQ || (q_==SEQ && STATE!=TOMBSTONE)) -> skip
  :: else ->
     if
     :: STATE==VACANT && IS(no_tombstone) -> skip
     :: else -> SEQ=q_; end(TOMBSTONE)
     fi;
     left[t_]=left[t_]|BIT(s_);
     if /* the gateway takes the answer of the very target, while it knows of no higher fence */
     :: ((t_==to[o_] || IS(no_boot)) && rank[t_]>=high[g_]) || IS(ack_of_any) ->
        close(s_,q_); byeNow();
        if :: SUSPECT(t_) -> REACHED(goal_suspect) :: else fi
     :: else
     fi
  fi
}
inline lose() {         /* the first boot of g_ is gone: what it owned counts for nothing */
  gone[t_]=gone[t_]|BIT(g_);
  mark[OF(t_,g_)]=0;
  for (i_ : 0 .. NS-1) {
    if
    :: GATEWAY(i_)==g_ && seq[OF(t_,i_)]<=firstLast[g_] ->
       state[OF(t_,i_)]=VACANT; seq[OF(t_,i_)]=0; order[OF(t_,i_)]=0; putOut[t_]=putOut[t_]&~BIT(i_);
       named[OF(t_,i_)]=0; answered[OF(t_,i_)]=0; forced[OF(t_,i_)]=0;
       for (v_ : 0 .. NS-1) { /* who comes under the new boot is another */
         named[OF(t_,v_)]=named[OF(t_,v_)]&~BIT(i_);
         answered[OF(t_,v_)]=answered[OF(t_,v_)]&~BIT(i_); forced[OF(t_,v_)]=forced[OF(t_,v_)]&~BIT(i_)
       }
    :: else
    fi
  }
  synced[t_]=synced[t_]&~BIT(g_);
  if /* its next life may have taken over its sockets */
  :: HAS(listed,t_) && since[g_]<rank[t_] && !IS(life_not_awaited) -> awaited[t_]=awaited[t_]|BIT(g_)
  :: else
  fi
}
inline arrive() {
  if
  :: HAS(reborn,g_) && !FORMER(g_,q_) && !HAS(gone[t_],g_) -> lose() /* a new boot ends the node's former one */
  :: else
  fi;
  if
  :: FORMER(g_,q_) && HAS(gone[t_],g_) && !IS(boot_returns) -> skip
  :: else ->
     if
     :: kind[o_]==REGISTER && (!SUSPECT(t_) || IS(suspect_commits)) -> register()
     :: kind[o_]==SYNC -> sync(); arrived=arrived|BIT(o_)
     :: kind[o_]==UNREGISTER -> unregister()
     :: else
     fi
  fi
}
