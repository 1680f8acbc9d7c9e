// Package gateway holds the WebSockets of users' devices and speaks for them in the mesh: it logs
// them in, keeps their routes alive, puts messages on exactly their sockets, and ends them when
// another login or an operator says so. The wire format is schema's; who owns which slot, and one
// try at asking it, is authority/client's.
//
// # A session
//
//	accept.go    upgrade, limits before it                       door.go   who is in
//	read.go      frames, and the rules that end a session        wire.go   the connection below
//	refresh.go   a new token for a running session
//	hello.go     hello -> authenticate (auth.go, jwt.go, auth_nats.go) -> pending (registry.go)
//	activate.go  register -> end conflicts (conflict.go) -> commit -> active (slot.go)
//	write.go     outbox -> socket                                heartbeat.go  silence, token's end
//	close.go     sealed, out of slot and registry, last word queued; then the socket closes
//
// # Goroutines
//
//	Run
//	 +- a listener's http.Server ---- a goroutine a handshake, ends with the upgrade
//	 +- a session: serve (reader) --+-- writer           owns the socket's writes and its close
//	 |                              +-- login            while one is under way
//	 |                              +-- a send, a watch, a refresh  while without an answer; bounded
//	 |                              +-- a ping           while without its pong
//	 +- sweep (touch.go)              one slot after the other; also without a life
//	 +- hub.run, lookouts, tellers    events, look-ups and presence frames for watches (hub.go, topic.go,
//	 |                                watcher.go, tell.go; rest.go: when they rest)
//	 +- client.Client.Run
//	 +- holder.Run -- live (life.go)  one boot after the other; under each:
//	      +- intake: push, kick, revoke, sessions  one serving loop each (lease.Loop)
//	      +- a touch a slot, a sync a slot     while there is something to tell
//	      +- a lane an authority: unregister   while there is something to tell (lanes.go)
//	      +- an unregister of a displaced one  for 1 s, until it goes into its lane
//	      +- a lane a gateway: repeated kicks  the same
//	      +- a push whose sender waits         until the devices have acknowledged, at most 30 s (acks.go)
//
// Each is waited for by what it hangs on in the drawing.
//
// # Lives
//
// A life is one boot of the gateway's key. When it ends the sockets stay, and nobody new comes in;
// under the next the active sessions get a connected frame with their new names, and are synced to
// every slot's authority with the orders of their logins. What is queued for the authorities, and
// the owner seqs, are a life's: a boot that is gone counts for nothing anywhere.
//
// # Invariants
//
//   - A session is in its slot's list exactly while it is active, in the registry exactly while it is
//     pending or active. Its state changes in three methods: admit, activate, close.
//   - Becoming active, and the list of whom a new owner is told, are taken under the slot's mu: a
//     login is either refused because a higher fence is known, or in that list.
//   - The connected frame is the first that a session gets of what others send; messages go into
//     the outbox of an active session only, and into none once it is sealed.
//   - A Delivery in this process (Config.Local) goes the way of a push message, with all its checks.
//     Find names a device only while its slot's present owner has acknowledged it, the lease is
//     proven, and nothing else can be meant: else somebody else has to be asked.
//   - A revocation is remembered before its sessions are looked for, and a session is in the registry
//     before it is asked whether it is revoked: no login slips through between the two.
//   - A kick is answered when the session is out of the registry and its outbox sealed. It never
//     waits for a socket.
//   - An owner seq is open until its target has answered it, or a later one of its session, or until
//     its slot has another owner. Requests carry the number below the lowest open one.
//   - A session's last word goes to the target that was last told of it, and nowhere else.
//   - A session that has been dirty for a TTL is closed, so none lives on that nobody can reach.
//   - A user is subscribed to and looked up once, however many watch it. A presence frame says what is
//     known when it is queued, one waits at most, and what changes within 200 ms goes into one: what
//     waits for a client that reads slowly is bounded by the users it watches.
//   - A user is looked up after the server has heard that its events are listened to, and once more
//     where that, or what has become of it, came into doubt while a look-up was under way.
//   - While watches rest (Config.WatchOff of the mesh) who watches whom is kept, and nothing else: no
//     subscription, no look-up, everybody is told unknown. What is told later is not older than before.
//   - Watches and unwatches of a session are done one after the other; nobody is told of a user before
//     it is allowed and found out about.
//   - Nothing is answered on a subject of the mesh or of the server: who asks could write there by it.
//   - Locks are taken in this order: hub, slot, session, then ledger or ack wait. None is held across network, a
//     channel send or a callback.
//
// # Queues
//
//	outbox of a session     512 frames, 1 MiB   full: a push is queue_full; an answer that the client is
//	                                            owed closes it with 3004; a presence frame, and a
//	                                            backend's answer, wait
//	users to tell a session 1,000               those it watches, each once; beyond: watch_limit
//	acks of a session       1,024 open          full: a push that wants one is queue_full
//	pushes that wait for    4,096               full: answered without acks to follow: written is all
//	acks                                        that their senders learn
//	sends, watches of a     16                  full: in_flight
//	session, unanswered
//	tokens that a backend   256                 full: the login waits, 3 s with the answer, then 1013
//	is asked about
//	intakes                 1,024 messages      full: nats.go drops the newest
//	unregisters             65,536              full: hellos are refused, 1013; none is dropped
//	repeated kicks          65,536              full: dropped; the session's next touch ends it
//	revocations remembered  65,536, 10 s        full: obeyed, but not acknowledged, so it is repeated
//	events for watches      8,192               full: dropped, then all is looked up again
//
// # Failures
//
//	no answer, or a refusal, in a login   tried again for 5 s, then 1013 with a hint; one rollback
//	nobody takes what clients send        no_backend; no answer in 5 s: timeout; both retryable, and one
//	                                      that is slow holds up nothing but its own sends
//	backend cannot judge a token          1013 with a hint; only its plain no is the client's fault
//	a new token is refused                an error; the session goes on until the old one's end
//	client ends while logging in          the same rollback
//	life ends while logging in            1013 with a hint
//	touch not answered                    dirty as before; 3006 when a TTL old. The directory counts from the
//	                                      last sign of life that it was told, up to a heartbeat and a flush
//	                                      before: where its owner lives and cannot be told for so long, look-ups
//	                                      say offline for the rest. To close as early would end sockets that a
//	                                      network away for two thirds of a TTL leaves alone
//	touch answered unknown                that session is synced; superseded: closed
//	slot has a new owner                  told of its sessions, unasked
//	unregister not answered               repeated, until the slot has another owner or a TTL is over
//	a kick proves nothing                 repeated until the authority lets go of the old route (2 s),
//	                                      then in the background for a TTL
//	silence of two heartbeats             3002
//	a socket write takes 10 s             3004
//	lease lost                            a new life
//	node name taken by another process    3006, Run ends with lease.ErrTakenOver
//	a watched user cannot be looked up    it is unknown after 2 s; tried again every 2 s
//	events are lost, the link was down    everything watched is looked up again; what differs is told
//	the server is slow to hear of a watch what is watched is looked up every 2 s until it has
//	nobody answers at auth.watch          unavailable or timeout, retryable; nothing is watched
//	a serving loop is wedged              it takes no probe, the lease is not renewed and ends
//	Run's context ends, or an operator    drain: see drain.go
//	asks for it
package gateway
