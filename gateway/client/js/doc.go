// Package js holds the JavaScript client of rollcall's WebSocket protocol: rollcall.js, an ES
// module without dependencies for browsers and Node, with its tests beside it (node --test).
// The Go side only carries the file, for whoever serves it.
//
// The module's own head says what it promises; it is the same as the Go client's (package client),
// and both read the same table of close codes, which a test here compares.
package js
