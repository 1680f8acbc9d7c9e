// Package schema is what the processes of a mesh say to each other and to the outside: ids,
// messages, the values of the bucket, the frames of the WebSocket protocol, error and close codes.
// It does nothing but describe, encode, decode and check; it imports nothing of this module, and
// it is the only one that imports msgpack.
//
// # Messages
//
// Where people and other languages read there is JSON, written by encoding/json from the structs
// here (api.go, event.go, keys.go, explain.go). What goes between our own processes is msgpack
// ([Message]): one array whose first element is its kind.
//
//	+------+---------+------------------+---------+ ... +- - - - - - - -+
//	| kind | version | head             | a field |     | of a newer one|
//	+------+---------+------------------+---------+ ... +- - - - - - - -+
//	 uint    1        array of its own    uint | bool | string | bin | list of arrays | columns
//
//	SlotHead     slot, fence, node, boot | seen | from node, boot | settled
//	AnswerHead   code | slot, fence, node, boot | differs | owner's four | seen | retry after | suspect | why
//	ProcessHead  from node, boot | code | why
//
// Every array of fields may grow behind, and only there: a reader skips what it does not know and
// refuses an array that ends too early. A field added to a later version has to be optional for
// its reader, as long as an older writer may be around. What has many rows travels as columns,
// one bin that holds each field of all rows, then the next field of all rows:
//
//	n | field 1 of row 1 .. n | field 2 of row 1 .. n | ...
//
//	number     varint, seven bits a byte, lowest first, in its shortest form
//	delta      zigzag varint of the distance to the row before (seq, fence, order, index of a session)
//	session    indexes as deltas, then generations
//	duration   varint, in milliseconds (of a touch: in steps of 100 ms)
//	string     the lengths of all rows, then all bytes
//	word       different values: their number, the values; then, if more than one, an index a row
//	touched    distance of the index << 1, lowest bit: a generation that differs from the last follows
//
// Columns do not grow: a later version adds another bin behind them. Why so: a row costs 24 to
// 95 ns each way (BenchmarkRow), against 630 to 1,300 as an array of its own by reflection.
//
//	kind  request      answer +64                        subject
//	1     register     its logins: committed or pending  slot.<slot>.<fence>.register
//	2     commit       as register                       slot.<slot>.<fence>.commit
//	3     unregister   a code each                       slot.<slot>.<fence>.unregister
//	4     touch        exceptions                        slot.<slot>.<fence>.touch
//	5     sync         a verdict each, losers            slot.<slot>.<fence>.sync
//	6     remove       how many                          slot.<slot>.<fence>.remove
//	7     lookup       group by group, routes            authority.<node>.<boot>.lookup
//	8     explain      JSON                              authority.<node>.<boot>.explain
//	9     status       JSON                              authority.<node>.<boot>.status
//	10    push         a result each; push acks (+128)   push.<node>.<boot>
//	11    kick         a code each                       kick.<node>.<boot>
//	12    sessions     a page of routes                  gateway.<node>.<boot>.sessions
//	13    revoke       the sessions ended                revoke
//
// A number of a closed set (code, reason, result) that this version has no word for reads as that
// set's general member, never as a failure of the whole message.
//
// # Invariants
//
//   - Bytes from outside pass [Guard] before anything is decoded. What a decoder allocates is
//     bounded by about 20 bytes for each byte that it got.
//   - What was decoded holds only ids that pass their own checks or are empty, so that it can be
//     put into a subject; a uid is never empty. Marshal checks the same, so that one bad entry is
//     found where it was made.
//   - Marshal changes nothing in a message: it may be sent again, and from several goroutines.
//   - What is decoded can be encoded and then decodes as the same (fuzzed).
//   - testdata/messages.golden and frames.golden are promises: bytes there never change. New ones
//     are added with go test ./schema -run Golden -update.
//   - Durations are ages or waits, never wall clocks.
//
// # Failures
//
//	hostile, cut or foreign bytes   ErrMalformed, which names the kind and the field
//	a field beyond its limit        Marshal returns ErrMalformed: a bug of the caller
//	a code of a newer process       CodeInternal; its error is ErrInternal
//	settings of another program     Config.Check: ErrConfig, both values named
//
// The package starts no goroutines and keeps no state.
package schema
