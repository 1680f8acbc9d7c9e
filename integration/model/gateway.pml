/* What a gateway does with a session s_ of its own; g_ is the gateway. Its rules stand in package
 * gateway: ledger.go and session.go (draw, answered), unregister.go (lastWord), sync.go. */

inline close(s, q) {    /* the ledger: what s has open up to seq q is open no longer */
  for (i_ : 1 .. NQ) {
    if
    :: i_<=(q) && who[GATEWAY(s)*NQ+i_-1]==(s) -> open=open&~BIT(GATEWAY(s)*NQ+i_-1)
    :: else
    fi
  }
}
inline draw(what, dest) { /* the next seq, for an op of s_ that goes to dest */
  drawn[g_]=drawn[g_]+1; o_=g_*NQ+drawn[g_]-1;
  kind[o_]=what; who[o_]=s_; to[o_]=dest;
  if :: IS(marks) -> open=open|BIT(o_) :: else fi
}
inline tell(what) {     /* a register or sync goes to the owner known; what is open elsewhere is void */
  if :: home[s_]!=view[g_] -> close(s_,NQ) :: else fi;
  draw(what, view[g_]);
  home[s_]=view[g_]; latest[s_]=drawn[g_]
}
inline hearKey(t) {     /* the key names t */
  view[g_]=t;
  if :: rank[t]>high[g_] -> high[g_]=rank[t] :: else fi
}
inline leave() {        /* s_ ends; its unregister goes to where it was told of last */
  at[s_]=CLOSED; unsealed=unsealed&~BIT(s_);
  if :: home[s_]!=0 -> draw(UNREGISTER, home[s_]) :: else fi
}
inline settledMark() {  /* q_ = the number below the lowest open op */
  q_=0;
  do
  :: q_<drawn[g_] && !HAS(open,g_*NQ+q_) -> q_=q_+1
  :: else -> break
  od
}
inline byeNow() {       /* the unregister of s_ is over, by the fence of t_ */
  if
  :: at[s_]==CLOSED && !HAS(bye,s_) ->
     bye=bye|BIT(s_); byeRank[s_]=rank[t_];
     MUST(cur==0 || rank[cur]<rank[t_] || state[OF(cur,s_)]!=COMMITTED, "a session whose unregister is acknowledged is visible\n")
  :: else
  fi
}
inline rebirth(crash) { /* the boot of g_ is over; its sockets live on where the process does */
  reborn=reborn|BIT(g_); firstLast[g_]=drawn[g_]; since[g_]=0; chunkTo[g_]=0;
  for (s_ : 0 .. NS-1) {
    if
    :: GATEWAY(s_)==g_ ->
       close(s_,NQ); home[s_]=0; told[s_]=0;
       if :: at[s_]==LOGIN || (at[s_]==ACTIVE && crash) -> at[s_]=CLOSED :: else fi;
       /* what others say of the session, or send it, names the former boot: it means nobody now */
       for (t_ : 1 .. NT) { kicks[t_]=kicks[t_]&~BIT(s_) }
       for (i_ : 0 .. NO-1) { saysAnswered[i_]=saysAnswered[i_]&~BIT(s_); saysForced[i_]=saysForced[i_]&~BIT(s_) }
    :: else
    fi
  }
}
