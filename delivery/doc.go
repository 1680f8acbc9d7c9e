// Package delivery is how a backend reaches its users: it looks them up, pushes messages to their
// devices and closes their sessions. A backend in Go writes delivery.New(nc) and nothing else; all
// others call the NATS service "presence", which a Service serves in JSON, or the same over HTTP, by its
// Handler; SERVICE.md is what it promises them.
//
//	d, err := delivery.New(nc)
//	found, err := d.Lookup(ctx, []schema.UID{"alice"})
//	pushed, err := d.Push(ctx, delivery.Message{Payload: payload}, []schema.UID{"alice"}, delivery.ToFlag("app"))
//	for seen, err := range d.Watch(ctx, []schema.UID{"alice"}) { ... }
//	kicked, err := d.Kick(ctx, delivery.KickRequest{UID: "alice", Device: "phone-1"})
//
//	presence.push --> Service --> Push --> cache --> look-up -------> authorities (package client)
//	                               |         ^---- event.>: what is kept and true no more
//	                               plan: users x routes --> batches a gateway      (pure)
//	                               |
//	                               lanes, one a gateway ----> push.<node>.<boot>, or a call where the
//	                               |         |                gateway is in this process (Local)
//	                               |         ^---- pending: again after 10 .. 320 ms
//	                               |         ^---- refused where the cache told of it: looked up, sent on
//	                               |         '---- acks, where waited for: a second answer
//	                               |---- no_session -----> slot.<slot>.<fence>.remove
//	                               |---- not reached ----> fallback.<name>, where asked for
//	                               v
//	                               a result a route, reached a user
//
//	Watch: event.<slot>.<uid token> --> above the user's stamp --> Changed
//	       rebuilt, reconnect, loss, 5 min --> look up again ----> Changed ..., Resync
//
// It owns the plan of a push, the lanes to the gateways, the cache, and the service; it keeps nothing
// of users but, where WithCache has it so, the answers of the last second. New is the one place that
// starts something: the mesh may not be in reach yet, and a backend should not have to wait for it.
//
// Invariants:
//   - Results align with the recipients, duplicates included; a session gets a message at most once
//     a call.
//   - One gateway's batches go in order, gateways side by side: no slow gateway holds up another.
//   - What is to be done about one gateway's answer waits for no other gateway.
//   - A push looks users up in all but the last second of its caller's time, or in half of it where that
//     is less: who is found by then is sent the message, whoever else is still being asked about.
//   - The cache keeps only certain answers, each for at most a second from the start of its look-up,
//     and only as long as nothing that was heard since then speaks against it. Its subscription goes
//     out before the first look-up that is kept. A push that it misled looks up anew in the same call,
//     once a user, and sends to no session twice.
//   - What has no answer is unknown, never reached and never removed. Only a gateway's own
//     no_session is passed to the authority, which removes exactly the route that was looked up.
//   - A gateway in this process is asked and told without a NATS message, in its own lane, with the
//     same checks and results. Only where it is sure of a named device does a look-up fall away.
//   - acked is a device's own word. An ack wait holds up neither a lane nor another's answer, and
//     ends early when no acknowledgement can come any more; what was written stays written. It takes nine
//     tenths of the caller's time at most, so that what was acknowledged by then is told.
//   - A fallback gets each user once, with the reason that leaves most open, and only what was not
//     reached. What could not be published is counted in the answer.
//   - owner_gone is proven: by the gateway's key, or by meeting nobody three times.
//   - Who cannot be found out about is unknown, never offline; Kick then refuses, since it could not
//     say whose sessions are left.
//   - A watch subscribes, then looks up, then applies what is above a user's stamp: its view is true
//     after every Resync, and between two sightings of a user stamps never go back. Who cannot be
//     found out about is looked up every 2 s.
//   - What Sessions tells comes from the gateway itself; a page of an earlier life leads nowhere.
//   - The service pushes to nobody of whom its answer could not tell: next names the first.
//   - What the service says of its calls (JSON Schema in each endpoint's metadata) is derived from
//     the types that it reads and writes.
//   - Nothing is answered on a subject of the mesh or of the server: who calls could write there by it.
//   - HTTP and NATS share calls, workers and limits; without a key, compared in constant time, nothing
//     of a request is read but its head. Who sends or reads slowly there takes no worker's place.
//   - What comes from outside is checked before it can reach a message that others share.
//
// Goroutines: New starts one, which keeps the view and the client and ends with Close, and one that
// hears of events where there is a cache. A push whose cached routes are refused has one a look-up,
// and waits for it. The Service has one a call being served, at most Workers. An ack wait has one a
// message, in package client, for at most 30.5 s. A watch has none: it runs in its caller's.
//
//	failure                        what happens
//	mesh not in reach              Lookup and Push say unknown after 500 ms, the rest ErrUnavailable
//	bucket of another format       every call returns schema.ErrConfig
//	gateway silent                 its routes are unknown after 2 s (kick: 400 ms)
//	gateway gone                   its routes are owner_gone, after 200 ms unless its key says so
//	session still being set up     tried again for 630 ms, then unknown
//	device does not acknowledge    written; after the wait at the latest, at once if its session ends
//	gateway dies in an ack wait    written, half a second after the wait
//	last_seen not kept, away,      the look-up is answered; last_seen_why (Seen.Err) says so of each user,
//	  or not readable              after a second at the most
//	fallback cannot be published   fallback_failed counts the users; their results stand all the same
//	cache full                     its oldest answer goes
//	events lost, or too many       everything cached is looked up again: at once where that is noticed
//	                               (reconnect, 16,384 events waiting), else within a second
//	events not permitted           the same: a new device may be missed for a second
//	lane of a gateway full         the routes are unknown, nothing was sent; counted in lane_full_total
//	gateway asked for sessions     404 where none lives under that name, 504 where it is silent
//	consumer of a watch is slow    8,192 events wait; one more is lost, all is looked up, and Resync says so
//	watch of over 10,000 users     ErrTooLarge; each costs a subscription
//	server slow to hear of a watch all is looked up every 2 s until it has
//	events lost in silence         found out by the look-up every 5 minutes
//	revocation not answered        told again to all gateways, until those that live have answered or
//	                               the caller's context ends: then they are named
//	kick under an overtaken fence  looked up again, at most three rounds
//	kick during a rebuild          the sessions known are kicked, then ErrUnknownUser: there may be more
//	caller's context ends          what is known by then is returned
//	Service has no worker free     429
package delivery
