// Package client is the Go client of rollcall's WebSocket protocol: it keeps one session of one
// device alive across lost connections, hands out what arrives, and sends.
//
//	        Send, Watch, Unwatch                         OnMessage, OnPresence, OnState
//	               |                                              ^
//	               v outbox (64)                                  | Run's goroutine
//	token      +--------+  frames   +---------+  frames  +--------+   inbox (256)
//	  |        | writer |---------->| gateway |--------->| reader |-------> dispatch
//	  v        +--------+           +---------+          +--------+            |
//	 dial, hello   ^ ping on silence                          | answers by id  | dedup
//	               +---- acks (1,024) <-------------------------------- after the callback
//
// Run is the one main path: get a token, dial, say hello, serve the session until it ends, and
// decide by the close code alone: reconnect with full jitter, get a new token and reconnect, or
// stop.
//
// # Invariants
//
//   - One session at a time; Run owns it, and has ended all that it started when it returns.
//   - A message (from, id) reaches OnMessage once in a life of the Client, as far as the last
//     1,000 tell; a repeated one is acked and dropped. Nothing lost with a connection is replayed.
//   - The ack of a message goes out after OnMessage has returned, to the session it came by.
//   - What is watched is watched again at the start of each session, before anything else is asked.
//     OnPresence gets nothing older of a user than it got before, whichever gateway says it, as far as
//     the last 10,000 users tell.
//   - Callbacks run one at a time on Run's goroutine and never under a lock, so they may call
//     every method but Run.
//   - Both sides send within 30 s: after 25 s (or 5/6 heartbeat, where that is less) without a
//     frame of its own the client sends ping, which is answered by pong. Proxies cut idle
//     connections at 60 s, and some do not count WebSocket pings.
//   - A request is written at most once. When its connection ends first, it fails with ErrLost and
//     may or may not have been done.
//
// # Goroutines
//
// Run's own (connects, then dispatches to callbacks), and while connected one reader, one writer,
// one that sees the watches of the session's start through, and with RefreshBefore one that fetches
// tokens and gives them to the session. At the end of the caller's context one more says goodbye, for
// at most a second.
//
// # Queues
//
//	outbox  64 frames    full: Send, Watch and Unwatch wait, as long as their contexts do
//	acks    1,024        full: dispatch waits; the gateway keeps no more open itself
//	inbox   256 frames   full: the reader waits, which in the end makes the gateway close (3004)
//
// So a callback that waits for an answer is answered, unless 256 frames or more stand before it.
// Even then the watch over silence ends the connection, and ErrLost the wait.
//
// # Failures
//
//	connect fails, no answer to hello in 15 s    reconnect with backoff
//	HTTP 429, 503 before the upgrade             the same, not before Retry-After
//	HTTP 400, 403 before the upgrade             stop
//	close frame                                  by schema.CloseCode.Action
//	connection cut                               as the error frame before it said, else reconnect
//	nothing seen for 2 heartbeats                ping; still nothing 5 s later: reconnect
//	a write takes 10 s                           reconnect
//	a new token is late, or refused              tried again in half of the time left; at the end 3005
//	a watch is refused at a session's start      for the moment: again after 1 s, doubling to 30 s; else
//	                                             given up, and OnWatchRefused told
//	Token fails                                  tried again with backoff, unless it wraps ErrStopped
//	frame that cannot be read                    logged and dropped; unknown types silently
package client
