// Package ledger compares what senders were told with what clients got, message by message, while
// sessions come and go, about 500 a second where the machine has the time.
//
//	sender x 16 --- delivery.Push, one user a call ---> gw-1, gw-2 ---- TCP ----> device x 256
//	    |           half of them with the route cache                                |
//	    v                                                                            v
//	book: session -> (number, result)          compared          list: session -> numbers
//
// Everything but the devices' sockets runs in this process. A user's messages are numbered and have
// one sender, who waits for each, so that what a session gets must be in order, and nothing may be
// missing before what came:
//
//	who stays             gets every message, once
//	who leaves when told  has everything that was reported written before the message that told it
//	who is cut off        has a beginning of what was reported written: what was lost went with the socket
//	whoever acknowledged  has it
//
// A device reads its socket by itself, without the client library, which drops what comes twice.
//
//	go test -v ./integration/ledger                     100,000 pushes
//	ROLLCALL_LEDGER=1000000 go test -v -timeout 30m ./integration/ledger
package ledger
