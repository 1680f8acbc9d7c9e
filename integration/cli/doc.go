// Package cli tests the program as people meet it: what it prints, how fast it starts and ends,
// what it says when something is wrong, and its exit codes.
package cli
