// Package js holds the JavaScript client of rollcall's WebSocket protocol: rollcall.js, an ES
// module for browsers and Node without dependencies but rules.js beside it, and its tests
// (node --test). The Go side only carries the files, for whoever serves them.
//
// The module's own head says what it promises; it is the same as the Go client's (package client),
// and both read the same table of close codes, which a test here compares.
package js
