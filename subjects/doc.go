// Package subjects spells every subject, key, bucket and stream name of a mesh; no other package
// holds one as a literal. Builders are methods of [Prefix], which goes in front of all of them.
//
//	backend --presence.<call>--> delivery --authority.<node>.<boot>.<op>--> authority --event.>--> anyone
//	   ^                            |                                          ^  ^
//	   |                            +-slot.<slot>.<fence>.remove---------------+  |
//	   |                            +-push.<node>.<boot>, kick.<node>.<boot>-+    |
//	   |                                                                     v    |
//	   +--up.<slot>.<uid token>, auth.connect, auth.watch----------- gateway -+---+ slot.<slot>.<fence>.<op>
//
// Every subject of the mesh, with what builds and what reads each:
//
//	slot.<slot>.<fence>.<op>           Slot, SlotAll             ParseSlot       gateway, delivery (remove) -> authority
//	authority.<node>.<boot>.<op>       Authority, AuthorityAll   ParseAuthority  anyone -> authority
//	push.<node>.<boot>                 Push                                      delivery -> gateway
//	kick.<node>.<boot>                 Kick                                      gateway, delivery -> gateway
//	gateway.<node>.<boot>.sessions     Sessions                                  anyone -> gateway
//	gateway.<node>.<boot>.drain        DrainGateway                              operator -> gateway
//	revoke                             Revoke                                    delivery -> all gateways
//	fallback.<name>                    Fallback                                  delivery -> a backend's stream
//	event.<slot>.<uid token>           Event, AllEvents          ParseEvent      authority -> anyone
//	event.<slot>                       SlotEvent, SlotEvents, AllEvents          authority -> anyone
//	up.<slot>.<uid token>              Up, AllUp                 ParseUp         gateway -> a backend
//	presence.<call>                    ServiceCall                               a backend -> service
//	presence.changed.<key>             Changed                   ParseChanged    the server -> all processes
//	sys.disconnect                     SysDisconnect                             the server -> authorities
//	auth.connect                       AuthConnect                               gateway -> a backend
//	auth.watch                         AuthWatch                                 gateway -> a backend
//	$KV.last_seen.<uid token>          LastSeen, LastSeenGet                     authority -> its stream -> delivery
//	presence_events                    EventStream                               the stream of all events
//	$KV.presence.<key>                 BucketKey, BucketSubjects                 the bucket's stream
//	config                             ConfigKey                 ParseKey
//	authority.<node>, gateway.<node>   AuthorityKey, GatewayKey  ParseKey
//	slot.<n>                           SlotKey                   ParseSlotKey
//	_INBOX_<role>.>                    Inbox                                     answers to that role
//
// # Invariants
//
//   - A uid enters a subject as its [Token] only: no dot, no wildcard, no space. Token and uid map
//     one to one.
//   - [SlotOf] is what partition(256,1) of a NATS subject mapping gives for the token, so that
//     streams and consumers can be split as the directory is (integration/partition).
//   - No request is answered on a subject that the mesh or the server gives a meaning
//     (Prefix.Answerable): all that answer ask it first.
//   - A parser takes only what its builder gives: one form of each number, no part empty.
//   - Ids are checked where they come in (schema's Check, Prefix.Check); builders trust them.
//
// # Failures
//
//	a subject of another prefix, form or slot   ok is false; the message is none of ours
//	a token that no uid has                     an error that names it
//
// The package starts no goroutines and keeps no state.
package subjects
